"""A worker's agent that answers at a real socket, and callers of it, in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from mpi_agent.cgroup import CpuAccount
from mpi_agent.job.events import Event
from mpi_agent.job_processes import JobProcess
from mpi_agent.process_signals import Ended
from mpi_agent.segments import Segments
from mpi_agent.ssh.worker_protocol import parse_line, render_call, render_line
from mpi_agent.ssh.worker_words import Call, LauncherId, Line, Usage, Verb, Watching
from mpi_agent.state import StateDirectory, open_state_directory
from mpi_agent.worker.control import Control
from mpi_agent.worker.throttling import Throttling
from tests.fakes import EventRecorder

LIMIT_S = 20.0
PI = LauncherId(name="pi-launcher", container="first")
PI_RESTARTED = LauncherId(name="pi-launcher", container="second")
OTHER = LauncherId(name="e-launcher", container="first")
_T = TypeVar("_T")


class Ending:
    """Stands for ending processes: keeps what it was asked, and answers when it may.

    Args:
        killed: how many of two processes do not end by themselves.

    Attributes:
        trouble: with which it fails, if it does.
        left: how many of two processes do not end at all.
        graces_s: what each run had, in the order of `asked`.
    """

    def __init__(self, *, killed: int = 0) -> None:
        self.trouble: Exception | None = None
        self.left = 0
        self.asked: list[tuple[tuple[str, ...], str]] = []
        self.graces_s: list[float] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._killed = killed

    async def __call__(self, run_ids: tuple[str, ...], why: str, /, *, grace_s: float) -> Ended:
        """End two processes a run."""
        self.asked.append((run_ids, why))
        self.graces_s.append(grace_s)
        await self.may_end.wait()
        if self.trouble is not None:
            raise self.trouble
        return Ended(count=2 * len(run_ids), killed=self._killed, left=self.left)

    @property
    def run_ids(self) -> list[str]:
        """Every run that was to be ended, in order."""
        return [run_id for run_ids, _ in self.asked for run_id in run_ids]


class Ranks:
    """Stands for the processes of runs: two ranks of each run, if it is asked for them.

    Attributes:
        processes: that are found.
        signalled: what was sent, in order.
    """

    def __init__(self) -> None:
        self.processes: tuple[JobProcess, ...] = ()
        self.signalled: list[tuple[str, int]] = []

    def find(self) -> tuple[JobProcess, ...]:
        """Return what is there."""
        return self.processes

    def signal(self, run_id: str, signal_number: int) -> int:
        """Keep what was sent."""
        self.signalled.append((run_id, signal_number))
        return 2

    def usage(self, run_id: str) -> Usage:
        """Return what the two used."""
        return Usage(rank_numbers=(0, 1), cpu_s=(1.5, 2.25) if run_id == "a" else (0.0, 0.0))


class Caller:
    """One end of a conversation."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, line: Line) -> None:
        """Say a line."""
        self.writer.write(render_line(line))

    async def hear_raw(self) -> bytes:
        """Return the next line as it is, empty at the end."""
        async with asyncio.timeout(LIMIT_S):
            with contextlib.suppress(ConnectionError):
                return await self.reader.readline()
            return b""

    async def hear(self) -> Line | None:
        """Return the next line, None at the end."""
        raw = await self.hear_raw()
        return parse_line(raw) if raw else None

    async def hear_all(self) -> list[Line]:
        """Return every line until the worker closes."""
        heard = []
        while (line := await self.hear()) is not None:
            heard.append(line)
        return heard

    async def hang_up(self) -> None:
        """Close."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Served:
    """A worker's agent that answers.

    Attributes:
        cpu: what the kernel accounts for its container.
        segments: what it knows of shared memory.
    """

    def __init__(
        self,
        control: Control,
        state: StateDirectory,
        ending: Ending,
        ranks: Ranks,
        segments: Segments,
    ) -> None:
        self.cpu = CpuAccount()
        self.segments = segments
        self.control = control
        self.state = state
        self.ending = ending
        self.ranks = ranks
        self.told = EventRecorder()
        self.callers: list[Caller] = []
        self.task: asyncio.Task[None]

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return self.state.file("worker.sock")

    @property
    def mark(self) -> Path:
        """The file that says that a run is open."""
        return self.state.file("run")

    def events(self, kind: type[_T]) -> list[_T]:
        """Return what happened, of one kind."""
        return [event for event in self.told.events if isinstance(event, kind)]

    async def connect(self) -> Caller:
        """Return a conversation in which nothing was said."""
        self.callers.append(Caller(*await asyncio.open_unix_connection(str(self.socket))))
        return self.callers[-1]

    async def call(self, call: Call) -> Caller:
        """Return a conversation that begins with a call."""
        caller = await self.connect()
        caller.writer.write(render_call(call))
        return caller

    async def ask_clean(self, asker: LauncherId | None, *, run_id: str = "") -> list[Line]:
        """Return what is answered to `clean`."""
        caller = await self.call(Call(verb=Verb.CLEAN, launcher=asker, run_id=run_id))
        return await caller.hear_all()

    async def watch(self, run_id: str = "a", launcher: LauncherId = PI) -> Caller:
        """Return a conversation that holds a run."""
        caller = await self.call(Call(verb=Verb.WATCH, launcher=launcher, run_id=run_id))
        assert isinstance(await caller.hear(), Watching)
        return caller


@contextlib.asynccontextmanager
async def serving(
    directory: Path,
    *,
    lease_s: float | None = 60.0,
    killed: int = 0,
    shared_memory: Path | None = None,
    status: Callable[[], str] = lambda: '{\n "ready": true\n}\n',
    last_words: Callable[[], tuple[Line, ...]] = tuple,
    call_limit_s: float = 10.0,
) -> AsyncIterator[Served]:
    """Let a worker's agent answer while the block runs."""
    ending, state = Ending(killed=killed), open_state_directory(str(directory))
    events: list[Callable[[Event], None]] = []
    accounts: list[Callable[[], CpuAccount]] = []
    ranks, segments = Ranks(), Segments(shared_memory or directory / "shm")
    control = Control(
        state=state,
        ranks=ranks,
        segments=segments,
        worker_name="pi-worker-0",
        lease_s=lease_s,
        end_runs=ending,
        status=status,
        emit=lambda event: events[0](event),
        last_words=last_words,
        throttling=Throttling(lambda: accounts[0]()),
        call_limit_s=call_limit_s,
    )
    served = Served(control, state, ending, ranks, segments)
    events.append(served.told)
    accounts.append(lambda: served.cpu)
    control.listen()
    served.task = asyncio.create_task(control.serve())
    await asyncio.sleep(0)  # a task that never began has no end either
    try:
        yield served
    finally:
        for caller in served.callers:
            await caller.hang_up()
        served.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await served.task


def serve_and(
    work: Callable[[Served], Awaitable[None]],
    directory: Path,
    *,
    lease_s: float | None = 60.0,
    killed: int = 0,
    shared_memory: Path | None = None,
) -> None:
    """Do some work with an agent that answers."""

    async def served_work() -> None:
        async with serving(
            directory, lease_s=lease_s, killed=killed, shared_memory=shared_memory
        ) as served:
            await work(served)

    run(served_work())


async def until(claim: str, check: Callable[[], bool], *, limit_s: float = LIMIT_S) -> None:
    """Return once `check()` is true; fail with the claim at the limit."""
    try:
        async with asyncio.timeout(limit_s):
            while not check():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {limit_s:g} s: {claim}") from None


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Return what the work returns, or fail after a while."""

    async def limited() -> _T:
        async with asyncio.timeout(60.0):
            return await work

    return asyncio.run(limited())
