"""Hosts that are lost in every way, real workers and plain sshd's, and what must be no loss.

How soon is bounded loosely here, for a machine that does much else; what counts is what is told,
of whom, and in which order.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Thread

import psutil
import pytest

from tests.farm import Farm, FarmHost, FarmOptions
from tests.farm_launch import AGENTS, farm_of, launcher_environ
from tests.waiting import wait_until
from tests.workers import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.integration

QUICK_S = 6.0
LONG_S = 60.0
NAME_2 = "pi-worker-2.pi.default.svc"
NOT_THERE = r"(no answer on TCP|no route to it) since \d\d:\d\d:\d\d"
MUTE = r"connections are accepted and nothing is answered since \d\d:\d\d:\d\d"
REFUSED = r"connection refused since \d\d:\d\d:\d\d"


@dataclass(slots=True)
class Watch:
    """The launcher's watch over the workers of a farm.

    Attributes:
        said: its lines so far, each with the time at which it came.
    """

    popen: subprocess.Popen[str]
    said: list[tuple[float, str]] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """What it said."""
        return [line for _, line in self.said]

    def read(self) -> None:
        """Take its lines as they come."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.said.append((time.monotonic(), line.rstrip("\n")))

    def says(self, pattern: str, *, limit_s: float = LONG_S) -> float:
        """Return when it said a line that matches, waiting for it."""

        def found() -> list[float]:
            return [at_s for at_s, line in self.said if re.fullmatch(pattern, line)]

        wait_until(
            f"the watch says {pattern}; it said {self.lines}",
            lambda: bool(found()) or self.popen.poll() is not None,
            limit_s=limit_s,
        )
        assert found(), self.lines
        return found()[0]

    def tells_of(self, host: str, why: str, *, since_s: float) -> float:
        """Return seconds until a loss of that host alone was told, and a suspicion before it."""
        name = re.escape(host)
        suspected_s = self.says(rf"suspected {name}: .*")
        lost_s = self.says(rf"lost {name}: {why} \(.* s\)")
        self.says(rf"alarm {name} lost: {why}")
        assert suspected_s <= lost_s
        assert not [one for one in self.lines if one.startswith("lost ") and host not in one]
        return lost_s - since_s

    def says_nothing_of_a_loss_for(self, seconds: float) -> None:
        """Assert that nobody is lost for some time."""
        until_s = time.monotonic() + seconds
        wait_until(
            "time passes",
            lambda: time.monotonic() > until_s or any("alarm" in line for line in self.lines),
            limit_s=seconds + LIMIT_S,
        )
        assert not [line for line in self.lines if line.startswith(("lost", "alarm"))]


@contextlib.contextmanager
def watching(farm: Farm, kind: str, timeout_s: float = QUICK_S) -> Iterator[Watch]:
    """Give a watch that has begun; it ends in good order."""
    hosts = (f"{worker.name}={worker.address}" for worker in farm.workers)
    words = (str(farm.root), str(farm.ssh_port), str(timeout_s), kind, *hosts)
    popen = subprocess.Popen(
        [*farm.launcher.enter, sys.executable, "-m", "tests.watching_launcher", *words],
        env=launcher_environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watch = Watch(popen)
    reader = Thread(target=watch.read)
    reader.start()
    try:
        watch.says("watching")
        yield watch
    finally:
        assert popen.stdin is not None
        popen.stdin.close()
        try:
            popen.wait(LIMIT_S)
        finally:
            popen.kill()
            popen.wait()
            reader.join()
            assert popen.stdout is not None
            popen.stdout.close()


@pytest.fixture(scope="module", params=["agents", "plain"])
def farm(request: pytest.FixtureRequest) -> Iterator[tuple[Farm, str]]:
    """Provide three workers that serve by their agents, or by sshd's alone."""
    kind: str = request.param
    with farm_of(3, AGENTS if kind == "agents" else FarmOptions()) as farm:
        yield farm, kind


@contextlib.contextmanager
def paused(host: FarmHost) -> Iterator[None]:
    """Stop every process of a host for a while, as a frozen container's are."""
    processes = host.processes()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def test_a_worker_that_is_cut_off_in_silence_is_suspected_and_then_lost(
    farm: tuple[Farm, str],
) -> None:
    """No connection is told anything."""
    hosts, kind = farm
    with watching(hosts, kind) as watch:
        began_s = time.monotonic()
        hosts.cut_off(hosts.workers[2])
        try:
            took_s = watch.tells_of(NAME_2, NOT_THERE, since_s=began_s)
        finally:
            hosts.plug_in(hosts.workers[2])
    assert took_s <= 10 * QUICK_S
    print(f"{kind}: cut off, timeout {QUICK_S:g} s: lost after {took_s:.1f} s")


def test_a_worker_whose_interface_is_down_is_lost_for_want_of_an_answer(
    farm: tuple[Farm, str],
) -> None:
    """Also where it had accepted a connection and answered nothing a moment before."""
    hosts, kind = farm
    worker = hosts.workers[2]
    with watching(hosts, kind) as watch, paused(worker):
        watch.says(rf"suspected {NAME_2}: .*")
        worker.run("ip", "link", "set", "eth0", "down")
        try:
            took_s = watch.tells_of(NAME_2, NOT_THERE, since_s=time.monotonic())
        finally:
            worker.run("ip", "link", "set", "eth0", "up")
    print(f"{kind}: paused and down, timeout {QUICK_S:g} s: lost after {took_s:.1f} s")


def test_the_usual_timeout_is_kept(farm: tuple[Farm, str]) -> None:
    """Fifteen seconds."""
    hosts, kind = farm
    with watching(hosts, kind, 15.0) as watch:
        began_s = time.monotonic()
        hosts.cut_off(hosts.workers[2])
        try:
            took_s = watch.tells_of(NAME_2, NOT_THERE, since_s=began_s)
        finally:
            hosts.plug_in(hosts.workers[2])
    assert took_s <= 150.0
    print(f"{kind}: cut off, timeout 15 s: lost after {took_s:.1f} s")


def test_a_paused_worker_is_lost_though_its_port_accepts_connections(
    farm: tuple[Farm, str],
) -> None:
    """The kernel accepts for it."""
    hosts, kind = farm
    with watching(hosts, kind) as watch, paused(hosts.workers[2]):
        took_s = watch.tells_of(NAME_2, MUTE, since_s=time.monotonic())
    print(f"{kind}: paused, timeout {QUICK_S:g} s: lost after {took_s:.1f} s")


def test_a_worker_that_is_cut_off_for_a_moment_is_not_lost(farm: tuple[Farm, str]) -> None:
    """It is suspected, and then there again."""
    hosts, kind = farm
    with watching(hosts, kind, 12.0) as watch:
        hosts.cut_off(hosts.workers[1])
        try:
            watch.says(r"suspected pi-worker-1.*")
        finally:
            hosts.plug_in(hosts.workers[1])
        watch.says(r"returned pi-worker-1.*")
        watch.says_nothing_of_a_loss_for(1.0)


def test_a_launcher_whose_own_network_is_cut_says_so(farm: tuple[Farm, str]) -> None:
    """And everybody is lost."""
    hosts, kind = farm
    with watching(hosts, kind) as watch:
        hosts.cut_off(hosts.launcher)
        try:
            watch.says(
                "alarm no host answers any more, as if this container's own network were cut: "
                rf"pi-worker-\[0-2\].pi.default.svc lost: {NOT_THERE}"
            )
        finally:
            hosts.plug_in(hosts.launcher)


def test_a_launcher_that_was_paused_for_longer_than_the_timeout_blames_nobody(
    farm: tuple[Farm, str],
) -> None:
    """As a frozen container is, or one that is moved to another machine."""
    hosts, kind = farm
    with watching(hosts, kind, 3.0) as watch:
        os.kill(watch.popen.pid, signal.SIGSTOP)
        try:
            until_s = time.monotonic() + 5.0
            wait_until("it is paused", lambda: time.monotonic() > until_s)
        finally:
            os.kill(watch.popen.pid, signal.SIGCONT)
        watch.says_nothing_of_a_loss_for(4.0)


def test_full_load_is_no_loss(farm: tuple[Farm, str]) -> None:
    """Eight busy processes on every host: ranks that wait for each other spin."""
    hosts, kind = farm
    busy = [
        subprocess.Popen([*host.enter, "sh", "-c", "while :; do :; done"])
        for host in hosts.workers
        for _ in range(8)
    ]
    try:
        with watching(hosts, kind) as watch:
            watch.says_nothing_of_a_loss_for(2 * QUICK_S)
    finally:
        inside = [process for one in busy for process in psutil.Process(one.pid).children()]
        for process in inside:
            process.kill()
        for one in busy:
            one.kill()
            one.wait()


@dataclass(frozen=True, slots=True)
class Pod:
    """What stays of a pod when its container is killed: the network, the files, the name."""

    holder: subprocess.Popen[bytes]

    @property
    def enter(self) -> tuple[str, ...]:
        """The words before a command in it."""
        return ("nsenter", f"--target={self.holder.pid}", "--net", "--uts", "--ipc", "--mount")


@contextlib.contextmanager
def pod_of(host: FarmHost) -> Iterator[Pod]:
    """Give a pod that outlives its container."""
    words = ("nsenter", f"--target={host.pid}", "--net", "--uts", "--ipc", "--mount")
    with subprocess.Popen([*words, "sh", "-c", "echo in; exec sleep infinity"], stdout=-1) as held:
        try:
            assert held.stdout is not None
            assert held.stdout.readline() == b"in\n"
            yield Pod(held)
        finally:
            held.kill()


def kill_container(host: FarmHost) -> None:
    """Kill all processes of a worker at once."""
    (server,) = psutil.Process(host.pid).children()
    server.kill()
    wait_until("its container is gone", lambda: not host.is_alive())


@pytest.mark.parametrize("kind", ["agents", "plain"])
def test_a_worker_whose_container_was_killed_is_lost_sooner_than_a_silent_one(kind: str) -> None:
    """Its address is still there and refuses connections."""
    with farm_of(3, AGENTS if kind == "agents" else FarmOptions()) as farm:
        host = farm.workers[2]
        with pod_of(host), watching(farm, kind, 15.0) as watch:
            began_s = time.monotonic()
            kill_container(host)
            took_s = watch.tells_of(NAME_2, REFUSED, since_s=began_s)
    print(f"{kind}: container killed, timeout 15 s: lost after {took_s:.1f} s")


def test_a_worker_that_was_started_anew_under_its_name_and_address_is_lost() -> None:
    """However soon it answers again: the ranks went with its former container."""
    with farm_of(2, AGENTS) as farm:
        host = farm.workers[1]
        with pod_of(host) as pod, watching(farm, "agents", LONG_S) as watch:
            began_s = time.monotonic()
            kill_container(host)
            agent = (sys.executable, "-m", "mpi_agent", "worker", "--ssh-port", "22")
            own = ("--worker-name", host.short_name, "--ssh-key", str(farm.key), "--grace", "3s")
            alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
            with host.log.open("ab") as log:
                anew = subprocess.Popen(
                    [*pod.enter, *alone, "sh", "-c", f"exec {shlex.join((*agent, *own))}"],
                    env=launcher_environ(PYTHONPATH=str(REPOSITORY)),
                    stdout=log,
                    stderr=log,
                )
            try:
                why = "another container answers in its place"
                watch.says(rf"alarm {re.escape(host.name)} lost: {why}")
                took_s = time.monotonic() - began_s
            finally:
                anew.kill()
                anew.wait()
    print(f"agents: started anew, timeout {LONG_S:g} s: lost after {took_s:.1f} s")
