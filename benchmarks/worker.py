"""What a worker's agent costs: time to be ready, memory and CPU while idle, a login, the probe.

Beside a plain sshd of the same image, which is started with the same keys, and beside Python's own
start for the probe. The sidecar is looked at beside that plain sshd, and lets nobody in itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Record, Run, arguments, clean_environment, recording
from benchmarks.namespaces import JOB_KEY, ROOT, end, enter_own_namespaces

_ADDRESS = "127.77.0.1"
_LIMIT_S = 30.0
_PAUSE_S = 0.002
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_MB, _MOST_PERCENT, _MOST_READY_MS = 45.0, 1.0, 100.0
_PLAIN, _OPENSSH, _SIDECAR = "plain sshd", "agent, openssh", "sidecar"
_READY = b"GET /readyz HTTP/1.0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One program that stays: its command line, and how it is seen to be ready.

    Attributes:
        port: on which it then answers.
        ready: the file that it makes then; None where the port tells.
        beside: what runs before it and as long as it does, and lets others in for it.
    """

    argv: tuple[str, ...]
    port: int
    ready: Path | None = None
    beside: Server | None = None


def main() -> None:
    """Start each server several times; look at it while it idles, log in to it."""
    parser = arguments(__doc__ or "", repeat=5)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of idling looked at")
    given = parser.parse_args()
    enter_own_namespaces()
    headings = ("server", "ready s", "rss MB", "idle CPU %", "login ms", "login CPU ms")
    with recording(given.json, *headings) as record:
        servers = _servers(given.agent)
        for name, server in servers.items():
            if name not in given.without:
                _measure(name, server, given.repeat, given.idle, record)
        _measure_probe(servers[_OPENSSH], given.agent, given.repeat, record)


def _servers(agent: list[str]) -> dict[str, Server]:
    def worker(name: str, *more: str) -> Server:
        port, state = _free_port(), ROOT / name
        argv = (*agent, "worker", "--state-dir", str(state), "--ssh-key", str(JOB_KEY), *more)
        argv += ("--listen-address", _ADDRESS, "--ssh-port", str(port), "--worker-name", "w")
        return Server(argv=argv, port=port, ready=state / "ready")

    port = _free_port()
    plain = f"-D -f {ROOT}/sshd_config -p {port} -o ListenAddress={_ADDRESS}"
    http = str(_free_port())
    sshd = Server(argv=("/usr/sbin/sshd", *plain.split()), port=port)
    return {
        _PLAIN: sshd,
        _OPENSSH: worker("openssh", "--sshd", "openssh"),
        "agent, openssh, HTTP": worker("http", "--sshd", "openssh", "--http-port", http),
        "agent, builtin": worker("builtin", "--sshd", "builtin"),
        _SIDECAR: _sidecar(agent, sshd),
    }


def _sidecar(agent: list[str], sshd: Server) -> Server:
    port = _free_port()
    argv = (*agent, "sidecar", "--ssh-address", _ADDRESS, "--ssh-port", str(sshd.port))
    return Server(argv=(*argv, "--http-port", str(port)), port=port, beside=sshd)


def _measure(name: str, server: Server, repeat: int, idle_s: float, record: Record) -> None:
    ready_s = []
    for _ in range(repeat):
        with _running(server) as (_, took_s):
            ready_s.append(took_s)
    with _running(server) as (pid, _):
        before_s, started_s = _cpu_s(pid), time.monotonic()
        time.sleep(idle_s)
        percent = 100 * (_cpu_s(pid) - before_s) / (time.monotonic() - started_s)
        login = ("-", "-") if server.beside else _login_cells(server.port, repeat)
        rss_mb = _rss_mb(pid)
    median_s = statistics.median(ready_s)
    record.run(server=name, ready_s=median_s, rss_mb=rss_mb, idle_percent=percent)
    record.row(name, f"{median_s:.2f}", f"{rss_mb:.1f}", f"{percent:.2f}", *login)
    if name in (_OPENSSH, _SIDECAR):
        record.verdict(f"{name}: MB", rss_mb, _MOST_MB)
        record.verdict(f"{name}: % of a core while idle", percent, _MOST_PERCENT)


def _login_cells(port: int, repeat: int) -> tuple[str, str]:
    """Return the time and the client's CPU time of a login, each the median of several."""
    argv = ("ssh", "-p", str(port), "-o", "KexAlgorithms=curve25519-sha256", _ADDRESS, "true")
    logins = [Run(argv).finish_well() for _ in range(repeat)]
    wall_ms = 1000 * statistics.median(cost.wall_s for cost in logins)
    cpu_ms = 1000 * statistics.median(cost.cpu_s for cost in logins)
    return f"{wall_ms:.0f}", f"{cpu_ms:.0f}"


def _measure_probe(server: Server, agent: list[str], repeat: int, record: Record) -> None:
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
    beside = _running(server.beside) if server.beside else contextlib.nullcontext()
    with beside, _started(server) as started:
        yield started


@contextlib.contextmanager
def _started(server: Server) -> Iterator[tuple[int, float]]:
    started_s = time.monotonic()
    child = subprocess.Popen(
        server.argv,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not _is_ready(server):
            if child.poll() is not None or time.monotonic() > started_s + _LIMIT_S:
                raise RuntimeError(f"{server.argv} does not become ready")
            time.sleep(_PAUSE_S)
        yield child.pid, time.monotonic() - started_s
    finally:
        end(child)


def _is_ready(server: Server) -> bool:
    if server.ready is not None:
        return server.ready.exists()
    address = ("127.0.0.1", server.port) if server.beside else (_ADDRESS, server.port)
    with contextlib.suppress(OSError), socket.create_connection(address, 1) as one:
        if server.beside:
            one.sendall(_READY)
            return b" 200 " in one.recv(64)
        return one.recv(4) == b"SSH-"
    return False


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
