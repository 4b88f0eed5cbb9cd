"""How many plain hosts are asked in which time, and who ends what former runs left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from mpi_agent.job.run_reports import HostSwept
from mpi_agent.run.host_scripts import clean_line, list_line
from mpi_agent.run.plain_hosts import PlainHosts
from mpi_agent.run_id import RunId
from mpi_agent.ssh.trust import SshTarget
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

RUN = RunId.of_launcher(name="pi-launcher-9fq4z", container="c-2", launch="0123456789ab")
FORMER = RunId.of_launcher(name="pi-launcher-x7k2p", container="c-1", launch="ba9876543210")
CLEANED = '{"kind":"cleaned","ended":3,"killed":1,"left":0}'
REFUSED = '{"kind":"refused","why":"what is left here cannot be ended"}'
STAT = "7 (train) S 1 7 7 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0\n"
LISTING = f"/proc/7/environ:MPI_AGENT_RUN_ID={FORMER}\n/proc/7/environ:PMI_RANK=0\n{STAT}"


class PlayedHosts:
    """Hosts that answer each command after some time.

    Args:
        agent: what their agent answers to `clean`; empty where there is none.
        answer_s: how long a command takes.

    Attributes:
        asked: all commands.
    """

    def __init__(self, *, agent: str = "", answer_s: float = 0.5) -> None:
        self.asked: list[str] = []
        self._agent = agent
        self._answer_s = answer_s

    @contextlib.asynccontextmanager
    async def log_in(self, _: SshTarget) -> AsyncIterator[PlayedHosts]:
        """Let in."""
        yield self

    async def run(self, command: str) -> str:
        """Answer; the former run is there until somebody ends it."""
        self.asked.append(command)
        await asyncio.sleep(self._answer_s)
        if command == clean_line(RUN):
            return f"cleaned={self._agent}\n" if self._agent else ""
        return LISTING if self.asked.count(list_line()) == 1 else ""


def hosts_of(played: PlayedHosts, count: int) -> PlainHosts:
    """Return so many hosts of a run."""
    targets = [SshTarget(name=f"w-{number}", port=22) for number in range(count)]
    return PlainHosts(targets, played, RUN, emit=EventRecorder())


def former_ended(played: PlayedHosts) -> tuple[HostSwept, ...]:
    """Return what is told of what former runs left on one host."""

    async def ended(_: VirtualTimeLoop) -> tuple[HostSwept, ...]:
        return await hosts_of(played, 1).end_former(RUN)

    return run_in_virtual_time(ended)


def silent(swept: tuple[HostSwept, ...]) -> int:
    """Return how many hosts did not answer."""
    return sum(not host.answered for host in swept)


def test_many_hosts_have_the_time_that_so_many_logins_take() -> None:
    """512 hosts that take half a second each, a few at a time, are no silent hosts."""

    async def ended(_: VirtualTimeLoop) -> tuple[int, int]:
        hosts = hosts_of(PlayedHosts(), 512)
        return silent(await hosts.end()), silent(await hosts.end_former(RUN))

    assert run_in_virtual_time(ended) == (0, 0)


def test_less_time_than_usual_is_meant_for_all_hosts_together() -> None:
    """After a stop the pod has little time left; whoever did not answer then is told."""

    async def ended(loop: VirtualTimeLoop) -> tuple[float, int]:
        began_s = loop.time()
        swept = await hosts_of(PlayedHosts(), 512).end(limit_s=3.0)
        return loop.time() - began_s, silent(swept)

    took_s, count = run_in_virtual_time(ended)

    assert took_s == pytest.approx(3.0)
    assert 0 < count < 512


def test_an_agent_ends_what_former_runs_left_and_nobody_else_does() -> None:
    """It knows which launchers are still connected."""
    played = PlayedHosts(agent=CLEANED)

    assert former_ended(played) == (HostSwept(host="w-0", ended=3, killed=1),)
    assert played.asked == [clean_line(RUN)]


def test_where_an_agent_refuses_nothing_is_ended_behind_its_back() -> None:
    """It counts as a host of which nothing is known."""
    played = PlayedHosts(agent=REFUSED)

    assert former_ended(played) == (HostSwept(host="w-0", answered=False),)
    assert played.asked == [clean_line(RUN)]


@pytest.mark.parametrize("said", ["", "sh: worker-call: not found"])
def test_where_no_agent_answers_former_runs_are_ended_from_here(said: str) -> None:
    """A plain sshd, or an agent that is gone."""
    played = PlayedHosts(agent=said)

    assert former_ended(played) == (HostSwept(host="w-0", ended=1),)
