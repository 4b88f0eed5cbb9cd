"""What a worker's agent costs: time to be ready, memory and CPU while idle, a login, the probe.

Beside a plain sshd of the same image, which is started with the same keys, and beside Python's own
start for the probe.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Record, Run, arguments, clean_environment, recording

_ADDRESS = "127.77.0.1"
_LIMIT_S = 30.0
_PAUSE_S = 0.002
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_MB, _MOST_PERCENT, _MOST_READY_MS = 45.0, 1.0, 100.0
_PLAIN, _OPENSSH = "plain sshd", "agent, openssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One way to serve ssh: its command line, and the port on which it then answers."""

    argv: tuple[str, ...]
    port: int
    ready: Path | None = None


def main() -> None:
    """Start each server several times; look at it while it idles, log in to it."""
    parser = arguments(__doc__ or "", repeat=5)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of idling looked at")
    given = parser.parse_args()
    headings = ("server", "ready s", "rss MB", "idle CPU %", "login ms", "login CPU ms")
    with tempfile.TemporaryDirectory() as name, recording(given.json, *headings) as record:
        root = Path(name)
        _make_keys(root)
        for server_name, server in _servers(root, given.agent).items():
            if server_name not in given.without:
                _measure(server_name, server, root, given.repeat, given.idle, record)
        _measure_probe(root, given.agent, given.repeat, record)


def _servers(root: Path, agent: list[str]) -> dict[str, Server]:
    key = str(root / "id_rsa")

    def worker(name: str, *more: str) -> Server:
        port, state = _free_port(), root / name
        argv = (*agent, "worker", "--state-dir", str(state), "--ssh-key", key, *more)
        argv += ("--listen-address", _ADDRESS, "--ssh-port", str(port), "--worker-name", "w")
        return Server(argv=argv, port=port, ready=state / "ready")

    port = _free_port()
    plain = f"-D -e -f /dev/null -p {port} -h {root}/host_key -o ListenAddress={_ADDRESS}"
    plain += f" -o AuthorizedKeysFile={root}/id_rsa.pub -o StrictModes=no -o UsePAM=no"
    plain += " -o PidFile=none -o SetEnv=SHLVL=1"
    Path("/run/sshd").mkdir(exist_ok=True)
    http = str(_free_port())
    return {
        _PLAIN: Server(argv=("/usr/sbin/sshd", *plain.split()), port=port),
        _OPENSSH: worker("openssh", "--sshd", "openssh"),
        "agent, openssh, HTTP": worker("http", "--sshd", "openssh", "--http-port", http),
        "agent, builtin": worker("builtin", "--sshd", "builtin"),
    }


def _measure(
    name: str, server: Server, root: Path, repeat: int, idle_s: float, record: Record
) -> None:
    ready_s = []
    for _ in range(repeat):
        with _running(server) as (_, took_s):
            ready_s.append(took_s)
    with _running(server) as (pid, _):
        before_s, started_s = _cpu_s(pid), time.monotonic()
        time.sleep(idle_s)
        percent = 100 * (_cpu_s(pid) - before_s) / (time.monotonic() - started_s)
        logins = [
            Run(("ssh", *_ssh_options(root, server.port), _ADDRESS, "true")).finish_well()
            for _ in range(repeat)
        ]
        rss_mb = _rss_mb(pid)
    login_ms = 1000 * statistics.median(cost.wall_s for cost in logins)
    login_cpu_ms = 1000 * statistics.median(cost.cpu_s for cost in logins)
    median_s = statistics.median(ready_s)
    record.run(server=name, ready_s=median_s, rss_mb=rss_mb, idle_percent=percent)
    cells = (f"{median_s:.2f}", f"{rss_mb:.1f}", f"{percent:.2f}")
    record.row(name, *cells, f"{login_ms:.0f}", f"{login_cpu_ms:.0f}")
    if name == _OPENSSH:
        record.verdict(f"{name}: MB", rss_mb, _MOST_MB)
        record.verdict(f"{name}: % of a core while idle", percent, _MOST_PERCENT)


def _measure_probe(root: Path, agent: list[str], repeat: int, record: Record) -> None:
    server = _servers(root, agent)[_OPENSSH]
    assert server.ready is not None
    with _running(server):
        walls_ms = {"python -c pass": list[float](), "mpi-agent ready": list[float]()}
        probe = (*agent, "ready", "--state-dir", str(server.ready.parent))
        for _ in range(2 * repeat):
            for name, argv in zip(walls_ms, ((sys.executable, "-c", "pass"), probe), strict=True):
                walls_ms[name].append(1000 * Run(argv).finish_well().wall_s)
    python_ms, ready_ms = (statistics.median(values) for values in walls_ms.values())
    record.verdict("mpi-agent ready, ms", ready_ms, _MOST_READY_MS)
    record.verdict("mpi-agent ready / python -c pass", ready_ms / python_ms)


@contextlib.contextmanager
def _running(server: Server) -> Iterator[tuple[int, float]]:
    """Provide a server's pid, and how long it took until it was ready."""
    started_s = time.monotonic()
    with subprocess.Popen(
        server.argv,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            while not _is_ready(server):
                if child.poll() is not None or time.monotonic() > started_s + _LIMIT_S:
                    raise RuntimeError(f"{server.argv} does not become ready")
                time.sleep(_PAUSE_S)
            yield child.pid, time.monotonic() - started_s
        finally:
            child.terminate()


def _is_ready(server: Server) -> bool:
    if server.ready is not None:
        return server.ready.exists()
    with contextlib.suppress(OSError), socket.create_connection((_ADDRESS, server.port), 1) as one:
        return one.recv(4) == b"SSH-"
    return False


def _make_keys(root: Path) -> None:
    for name, words in {"id_rsa": "-t ecdsa -b 521 -m PEM", "host_key": "-t ed25519"}.items():
        subprocess.run(
            ("ssh-keygen", "-q", "-N", "", "-f", str(root / name), *words.split()), check=True
        )


def _ssh_options(root: Path, port: int) -> tuple[str, ...]:
    options = "BatchMode=yes StrictHostKeyChecking=no UserKnownHostsFile=/dev/null LogLevel=ERROR"
    options += " KexAlgorithms=curve25519-sha256"
    words = [word for option in options.split() for word in ("-o", option)]
    return ("-F", "/dev/null", "-p", str(port), "-i", str(root / "id_rsa"), *words)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
