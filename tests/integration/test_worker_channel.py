"""The launcher's channels over real ssh, to workers that are played by a script."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mpi_agent.job.events import Noted
from mpi_agent.job.worker_events import WorkerEvicted, WorkerExceededMemory
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.run.watched import WatchedWorkers
from mpi_agent.ssh.remote import ChannelBrokenError, NoAgentError, SshWorkers
from mpi_agent.ssh.trust import SshTarget, SshTerms
from mpi_agent.ssh.worker_words import Call, Draining, LauncherId, OutOfMemory, Over, Verb, Watching
from mpi_agent.state import open_state_directory
from mpi_agent.worker.call_program import write_call_program
from tests.fake_worker_call import FakeCall, Way
from tests.fakes import EventRecorder
from tests.fault_matrix import terms_of
from tests.liars import greets, lying, nobody
from tests.plain_sshd import SKIPS_BASHRC, PlainSshd, running_sshd
from tests.served_control import Served, serving, until
from tests.workers import JobKeys

pytestmark = pytest.mark.integration

CALL = Call(
    verb=Verb.WATCH, launcher=LauncherId(name="pi-launcher", container="c0ffee"), run_id="ab12"
)
ROOM = ("MaxStartups 1000", "MaxSessions 1000")
LIMIT_S = 30.0
_MOST_ADDRESSES = 16
"""of one sshd. Source: OpenSSH 9.2, sshd.c, MAX_LISTEN_SOCKS."""


@pytest.fixture
def call(root: Path) -> FakeCall:
    """Provide the script that every session is told of."""
    directory = root / "fakes"
    directory.mkdir()
    return FakeCall(root=directory)


@pytest.fixture
def sshd(keys: JobKeys, root: Path, call: FakeCall) -> Iterator[PlainSshd]:
    """Provide an sshd at two addresses."""
    variables = {**SKIPS_BASHRC, "MPI_AGENT_WORKER_CALL": str(call.path)}
    with running_sshd(keys, root, *ROOM, addresses=2, environ=variables) as sshd:
        yield sshd


class Watched:
    """Channels to some hosts for as long as a test likes."""

    def __init__(self, terms: SshTerms, *targets: SshTarget) -> None:
        self.recorder = EventRecorder()
        self.ended_in_s = 0.0
        self.news: tuple[WorkerNews, ...] = ()
        self._terms = terms
        self._targets = targets

    def until(
        self, check: Callable[[], bool] = lambda: True, *, code: int = 0, limit_s: float = 5.0
    ) -> Watched:
        """Watch until something is true, and say then that the job is over."""
        asyncio.run(self._until(check, code, limit_s))
        return self

    async def _until(self, check: Callable[[], bool], code: int, limit_s: float) -> None:
        workers = SshWorkers(self._terms)
        async with WatchedWorkers(self._targets, workers, CALL, emit=self.recorder) as watched:
            watched.begin()
            async with asyncio.timeout(LIMIT_S):
                while not check():
                    await asyncio.sleep(0.02)
            over_at_s = time.monotonic()
            await watched.sweep(limit_s=limit_s)
            await watched.end(code, limit_s=limit_s)
            self.ended_in_s = time.monotonic() - over_at_s
            self.news = watched.news

    def noted(self) -> list[str]:
        """Return the notes."""
        return [event.text for event in self.recorder.events if isinstance(event, Noted)]


def test_a_worker_hears_the_call_that_we_live_and_the_end(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """Over an sshd that may not execute the program itself."""
    first, second = sshd.addresses
    for address in sshd.addresses:
        call.behaves(address, lease_s=0.4)

    watched = Watched(terms_of(keys, root), *sshd.targets)
    watched.until(lambda: call.heard(first).count("alive") > 2, code=7)

    assert call.calls(first) == [
        {
            "verb": "watch",
            "launcher": {"name": "pi-launcher", "container": "c0ffee"},
            "run_id": "ab12",
        }
    ]
    assert call.heard(first)[-1] == call.heard(second)[-1] == "over"
    assert watched.recorder.events == []


def test_what_start_up_files_print_and_what_newer_agents_say_is_passed_over(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """Before the first word of the protocol, and within it."""
    call.behaves(sshd.addresses[0], Way.NOISY)

    watched = Watched(terms_of(keys, root), sshd.targets[0]).until()

    assert call.heard(sshd.addresses[0]) == ["watch", "over"]
    assert watched.noted() == []


def test_a_worker_that_is_evicted_or_out_of_memory_says_so(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """While the program runs, and in its last words."""
    draining = Draining(signal_name="SIGTERM", grace_s=25.0, ranks=1)
    no_memory = OutOfMemory(kills=2, used_bytes=3 * 1024**3, limit_bytes=4 * 1024**3)
    call.behaves(sshd.addresses[0], tells=(draining,))
    call.behaves(sshd.addresses[1], last_words=(no_memory,))

    watched = Watched(terms_of(keys, root), *sshd.targets)
    watched.until(lambda: bool(watched.recorder.events), code=137)

    assert watched.recorder.events == [
        WorkerEvicted(host="w-0", signal_name="SIGTERM", grace_s=25.0),
        WorkerExceededMemory(host="w-1", kills=2, used_bytes=3 * 1024**3, limit_bytes=4 * 1024**3),
    ]
    assert watched.news == (
        WorkerNews(host="w-0", is_evicted=True, ranks=1),
        WorkerNews(host="w-1", kills=2, used_bytes=3 * 1024**3, limit_bytes=4 * 1024**3),
    )


def test_a_worker_with_nonsense_in_its_lines_is_called_again_and_told_the_end(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """Numbers that cannot be are no news, and stumble nobody."""
    address = sshd.addresses[0]
    call.behaves(address, Way.NONSENSE)

    watched = Watched(terms_of(keys, root), sshd.targets[0])
    watched.until(lambda: call.heard(address).count("watch") == 2)

    assert call.heard(address)[-1] == "over"
    assert (watched.news, watched.recorder.events) == ((), [])


def test_a_channel_that_ends_too_soon_is_opened_again(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """And the second one serves to the end."""
    address = sshd.addresses[0]
    call.behaves(address, Way.BREAKS)

    watched = Watched(terms_of(keys, root), sshd.targets[0])
    watched.until(lambda: call.heard(address) == ["watch", "watch"])

    assert call.heard(address) == ["watch", "watch", "over"]
    assert watched.recorder.events == []


def test_a_silent_worker_is_called_again(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """It is not waited for at the end either."""
    address = sshd.addresses[0]
    call.behaves(address, Way.SILENT, lease_s=0.4)

    watched = Watched(terms_of(keys, root), sshd.targets[0])
    watched.until(lambda: call.heard(address).count("watch") > 1, limit_s=0.3)

    assert 0.3 <= watched.ended_in_s < 10 * 0.3
    (note,) = watched.noted()
    assert re.fullmatch(r"w-0 said no farewell within [\d.]+ s of the program's end", note)


def test_a_worker_without_a_farewell_is_waited_for_no_longer_than_the_limit(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """The other one hears the end at once."""
    call.behaves(sshd.addresses[0], Way.MUTE)

    watched = Watched(terms_of(keys, root), *sshd.targets)
    watched.until(lambda: bool(call.heard(sshd.addresses[0])), limit_s=0.5)

    assert 0.5 <= watched.ended_in_s < 10 * 0.5
    assert call.heard(sshd.addresses[1]) == ["watch", "over"]


def test_a_worker_whose_launcher_goes_away_reads_the_end(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """Without a word, as a launcher does that is killed."""
    address = sshd.addresses[0]

    async def work() -> None:
        channel = await SshWorkers(terms_of(keys, root)).open(sshd.targets[0], CALL)
        assert isinstance(await channel.receive(), Watching)
        await channel.close()
        with pytest.raises(ChannelBrokenError):
            channel.send(Over(exit_code=0))
        async with asyncio.timeout(LIMIT_S):
            while call.heard(address) != ["watch", "gone"]:
                await asyncio.sleep(0.02)

    asyncio.run(work())


def test_a_host_without_the_variable_is_noted_once_and_left_alone(
    keys: JobKeys, root: Path
) -> None:
    """A plain sshd, or an older agent."""
    with running_sshd(keys, root, *ROOM, addresses=3) as sshd:
        watched = Watched(terms_of(keys, root), *sshd.targets)
        watched.until(lambda: bool(watched.recorder.events), limit_s=LIMIT_S)

    assert watched.noted() == ["w-[0-2]: the agent there cannot be spoken with; not watched"]
    assert watched.ended_in_s < LIMIT_S / 3


def test_no_agent_is_told_from_a_lost_channel(keys: JobKeys, root: Path) -> None:
    """One is for ever, the other is tried again."""

    async def first_word(target: SshTarget) -> None:
        channel = await SshWorkers(terms_of(keys, root)).open(target, CALL)
        try:
            await channel.receive()
        finally:
            await channel.close()

    with running_sshd(keys, root) as sshd, pytest.raises(NoAgentError):
        asyncio.run(first_word(sshd.targets[0]))
    missing = {**SKIPS_BASHRC, "MPI_AGENT_WORKER_CALL": "/nowhere/worker-call"}
    with running_sshd(keys, root, environ=missing) as sshd, pytest.raises(ChannelBrokenError):
        asyncio.run(first_word(sshd.targets[0]))
    with nobody() as target, pytest.raises(ChannelBrokenError):
        asyncio.run(first_word(target))


def test_a_port_that_never_finishes_a_login_does_not_hold_up_the_end(
    keys: JobKeys, root: Path
) -> None:
    """The limit holds for logins too."""
    with lying(greets) as target:
        watched = Watched(terms_of(keys, root), target).until(limit_s=0.3)

    assert 0.3 <= watched.ended_in_s < 10 * 0.3


def test_80_hosts_are_told_the_end_of_a_program_that_ran_and_of_one_that_did_not(
    keys: JobKeys, root: Path, call: FakeCall
) -> None:
    """With open channels at once, else as soon as the logins are done."""
    variables = {**SKIPS_BASHRC, "MPI_AGENT_WORKER_CALL": str(call.path)}
    with contextlib.ExitStack() as stack:
        daemons = [
            stack.enter_context(
                running_sshd(keys, root, *ROOM, addresses=_MOST_ADDRESSES, environ=variables)
            )
            for _ in range(80 // _MOST_ADDRESSES)
        ]
        addresses = [address for sshd in daemons for address in sshd.addresses]
        targets = [
            SshTarget(name=f"w-{number}", address=address, port=sshd.port)
            for number, (sshd, address) in enumerate(
                (sshd, address) for sshd in daemons for address in sshd.addresses
            )
        ]

        def everywhere(*words: str) -> bool:
            return all(call.heard(address) == list(words) for address in addresses)

        ran = Watched(terms_of(keys, root), *targets)
        ran.until(lambda: everywhere("watch"))
        ran_everywhere = everywhere("watch", "over")
        short = Watched(terms_of(keys, root), *targets).until(limit_s=LIMIT_S)
        short_everywhere = everywhere("watch", "over", "watch", "over")

    assert (ran_everywhere, ran.recorder.events) == (True, [])
    assert (short_everywhere, short.recorder.events) == (True, [])


def test_80_hosts_are_watched_where_the_soft_limit_of_open_files_is_low(
    keys: JobKeys, root: Path, call: FakeCall
) -> None:
    """The hard one leaves room; each channel is one file."""
    variables = {**SKIPS_BASHRC, "MPI_AGENT_WORKER_CALL": str(call.path)}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        daemons = [
            stack.enter_context(
                running_sshd(keys, root, *ROOM, addresses=_MOST_ADDRESSES, environ=variables)
            )
            for _ in range(80 // _MOST_ADDRESSES)
        ]
        targets = [
            SshTarget(name=f"w-{number}", address=address, port=sshd.port)
            for number, (sshd, address) in enumerate(
                (sshd, address) for sshd in daemons for address in sshd.addresses
            )
        ]
        addresses = [target.address or "" for target in targets]
        watched = Watched(terms_of(keys, root), *targets)
        open_now = len(os.listdir("/proc/self/fd"))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 40, hard))
        watched.until(lambda: all(call.heard(address) == ["watch"] for address in addresses))
        heard = [call.heard(address) for address in addresses]

    assert heard == [["watch", "over"]] * 80
    assert watched.recorder.events == []


def test_launcher_and_worker_agree_over_a_real_sshd(keys: JobKeys, root: Path) -> None:
    """The worker's own agent and its own program, in place of the script."""
    state = open_state_directory(str(root / "state"))
    variables = {**SKIPS_BASHRC, "MPI_AGENT_WORKER_CALL": str(write_call_program(state))}
    recorder = EventRecorder()

    async def work(target: SshTarget) -> tuple[Served, float]:
        last_words = (OutOfMemory(kills=1, used_bytes=1, limit_bytes=2),)
        async with serving(state.path, lease_s=2.0, last_words=lambda: last_words) as served:
            workers = SshWorkers(terms_of(keys, root))
            async with WatchedWorkers([target], workers, CALL, emit=recorder) as watched:
                watched.begin()
                await until("the run began", served.mark.exists)
                served.control.tell(Draining(signal_name="SIGTERM", grace_s=25.0, ranks=1))
                await until("the launcher heard it", lambda: bool(recorder.events))
                over_at_s = time.monotonic()
                await watched.end(7)
                took_s = time.monotonic() - over_at_s
            await until("nothing is left", lambda: not served.mark.exists())
            assert await served.control.job_over() == 7
        return served, took_s

    with running_sshd(keys, root, environ=variables) as sshd:
        served, took_s = asyncio.run(work(sshd.targets[0]))

    assert served.ending.run_ids == ["ab12"]
    assert recorder.events == [
        WorkerEvicted(host="w-0", signal_name="SIGTERM", grace_s=25.0),
        WorkerExceededMemory(host="w-0", kills=1, used_bytes=1, limit_bytes=2),
    ]
    assert took_s < 5.0
