"""Two thousand names of which three never come: they are told, and the others cost little."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import pytest

from tests.name_servers import SEARCH, needs_port_53, running_dnsmasq
from tests.waiting import wait_until
from tests.workers import LIMIT_S, JobKeys, environment_for, free_address, make_job_keys
from tests.worlds import in_own_etc

pytestmark = [pytest.mark.integration, needs_port_53]

COUNT = 2000
NEVER = (7, 1000, 1999)
PARALLEL = 64
OWN_SOCKETS = 10
"""of the event loop, and the port on which hosts connect back"""

TIMEOUT_S = 30
START_S = 10.0
"""for a Python and its imports, on a busy machine"""

MOST_MEMORY_KIB = 100 * 1024
SERVICE = f"pi.default.{SEARCH[1]}"


@contextlib.contextmanager
def one_sshd_for_all(keys: JobKeys) -> Iterator[int]:
    """Give the port on which every loopback address answers."""
    _, port = free_address()
    key = keys.directory / "host_key"
    key.write_bytes(keys.private_path.read_bytes())
    key.chmod(0o600)
    words = (str(port), str(key), str(keys.directory / "authorized_keys"))
    popen = subprocess.Popen(
        [sys.executable, "-m", "tests.one_sshd_for_all", *words],
        env=environment_for(None),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert popen.stdout is not None
        assert popen.stdout.readline() == "listens\n"
        yield port
    finally:
        popen.terminate()
        popen.communicate(timeout=LIMIT_S)


@dataclass(slots=True)
class Peaks:
    """The most that a process was seen to have."""

    sockets: int = 0
    memory_kib: int = 0

    def look_at(self, pid: int) -> None:
        """Note what it has now."""
        process = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
            self.sockets = max(self.sockets, sum(link.startswith("socket:") for link in links))
            if found := re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text()):
                self.memory_kib = max(self.memory_kib, int(found[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a wait ended."""

    code: int
    said: str
    answer: Answer
    took_s: float
    peaks: Peaks


class Host(TypedDict):
    """What the answer tells of one host; seconds since it got where it is."""

    name: str
    ready: bool
    since_s: float


class Answer(TypedDict):
    """What the answer tells of the job."""

    hosts_ready: int
    hosts_total: int
    elapsed_s: float
    hosts: list[Host]


def run_wait(root: Path, *words: str, resolv_conf: Path) -> Ended:
    """Run `mpi-agent wait` to its end, and look at it meanwhile."""
    command = (sys.executable, "-m", "mpi_agent", "wait", "--output", "json", *words)
    log, out = root / "wait.log", root / "wait.json"
    peaks, started_at_s = Peaks(), time.monotonic()

    def has_ended() -> bool:
        peaks.look_at(popen.pid)
        return popen.poll() is not None

    with log.open("w") as stderr, out.open("w") as stdout:
        popen = subprocess.Popen(
            [*in_own_etc(resolv_conf=resolv_conf), *command], stdout=stdout, stderr=stderr
        )
        wait_until("the wait is over", has_ended, limit_s=TIMEOUT_S + LIMIT_S)
    return Ended(
        code=popen.returncode,
        said=log.read_text(),
        answer=json.loads(out.read_text()),
        took_s=time.monotonic() - started_at_s,
        peaks=peaks,
    )


def test_three_of_two_thousand_that_never_come_are_named(root: Path) -> None:
    """Exactly they, in one row, at the deadline; memory and open sockets stay bounded."""
    keys = make_job_keys(root / "mount", "ssh-ed25519")
    hostfile = root / "hostfile"
    hostfile.write_text("".join(f"w-{n}.pi.default.svc slots=1\n" for n in range(COUNT)))
    with running_dnsmasq(root) as names, one_sshd_for_all(keys) as port:
        names.hosts.write_text("".join(record(n) for n in range(COUNT) if n not in NEVER))
        names.process.send_signal(signal.SIGHUP)
        ended = run_wait(
            root,
            *("--hostfile", str(hostfile), "--ssh-port", str(port)),
            *("--ssh-key", str(keys.private_path), "--state-dir", str(root / "state")),
            *("--parallel", str(PARALLEL), "--timeout", f"{TIMEOUT_S}s"),
            resolv_conf=names.resolv_conf,
        )

    print(f"ended {ended.took_s:.2f} s after the start; {told(ended)}")
    assert ended.code == 200, ended.said
    never = ",".join(str(number) for number in NEVER)
    assert f"cannot reach 3 of {COUNT} hosts within" in ended.said
    assert f'"w-[{never}].pi.default.svc": name does not exist' in ended.said
    _, row = (line for line in ended.said.splitlines() if line.startswith("    "))
    assert f"w-[{never}].pi.default.svc  no name yet" in row
    missing = [host["name"] for host in ended.answer["hosts"] if not host["ready"]]
    assert missing == [f"w-{number}.pi.default.svc" for number in NEVER]
    assert TIMEOUT_S <= ended.took_s < TIMEOUT_S + START_S
    assert ended.peaks.memory_kib < MOST_MEMORY_KIB
    assert ended.peaks.sockets <= 2 * PARALLEL + OWN_SOCKETS


def record(number: int) -> str:
    """Return what the name server knows of a pod: its own name and its Service's."""
    return f"127.9.{number // 250}.{number % 250 + 1} w-{number}.{SERVICE} {SERVICE}\n"


def told(ended: Ended) -> str:
    """Return the figures for the log."""
    ready_s = [h["since_s"] for h in ended.answer["hosts"] if h["ready"]]
    last_s = ended.answer["elapsed_s"] - min(ready_s)
    peaks = ended.peaks
    return (
        f"{len(ready_s)} were ready after {last_s:.2f} s; at most {peaks.sockets} sockets and "
        f"{peaks.memory_kib / 1024:.0f} MiB"
    )
