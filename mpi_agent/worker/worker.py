"""The worker's story on one page: prepare, serve ssh, say so, look after ranks, drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mpi_agent.children import Children
from mpi_agent.container import is_own_address, own_account
from mpi_agent.errors import SettingsError
from mpi_agent.job.events import EventSink, Noted, SignalReceived
from mpi_agent.job.worker_events import MemoryExceeded, WorkerReady
from mpi_agent.limits import forbid_core_dumps, raise_limits
from mpi_agent.segments import Segments
from mpi_agent.setting_words import Backend, ExitWithLauncher
from mpi_agent.ssh.trust import fingerprints_in
from mpi_agent.ssh.worker_words import Line, OutOfMemory
from mpi_agent.state import StateDirectory, open_state_directory
from mpi_agent.worker.control import Control
from mpi_agent.worker.drain import Drain
from mpi_agent.worker.emptied import end_when_emptied
from mpi_agent.worker.keeper import ServerKeeper
from mpi_agent.worker.memory import MemoryWatch, watch_memory
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.own_login import OwnLogin
from mpi_agent.worker.preparing import Preparation, Prepared
from mpi_agent.worker.ranks import RanksHere
from mpi_agent.worker.readiness import Readiness
from mpi_agent.worker.renewal import renew_certificate
from mpi_agent.worker.stop_signals import StopSignals
from mpi_agent.worker_settings import WorkerSettings

__all__ = ["Worker"]

_MEMORY_PACE_S = 5.0
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a worker consists of while it lives."""

    state: StateDirectory
    prepared: Prepared
    notary: Notary
    readiness: Readiness
    keeper: ServerKeeper
    ranks: RanksHere
    control: Control
    memory: MemoryWatch


class Worker:
    """One worker, from its start to the end of its container.

    Args:
        sshd_arguments: what the manifest gave to sshd; what does not contradict ours is used.
        status: tells in one line of JSON where the worker stands.
        stop: collects TERM and INT since before all this was loaded.
        notary_process: started before all this was loaded; None to start it when it is needed.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        sshd_arguments: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        emit: EventSink,
        status: Callable[[], str],
        stop: StopSignals,
        notary_process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._settings = settings
        self._arguments = sshd_arguments
        self._environ = environ
        self._emit = emit
        self._status = status
        self._stop = stop
        self._notary_process = notary_process
        self._name = settings.worker_name or socket.gethostname()

    async def run(self) -> int:
        """Serve until told to end; return 0 then, or the code that --exit-with-launcher asks for.

        Raises:
            HostKeyError, SshdConfigError, SettingsError: the worker cannot serve.
            SshdEndedError: the ssh server cannot be kept up.
        """
        forbid_core_dumps()
        for note in raise_limits():
            self._emit(Noted(text=note))
        with Children() as children, self._stop as stop:
            async with _running(stop.wait()) as stopped, _running(self._prepare(children)) as ready:
                await asyncio.wait((stopped, ready), return_when=asyncio.FIRST_COMPLETED)
                if stopped.done():
                    name = stopped.result().name
                    self._emit(SignalReceived(name=name, action="the worker was not ready yet"))
                    return 0
                parts = await ready
                children.adopt_orphans()
                with parts.readiness:
                    return await self._live(parts, stopped)

    async def _prepare(self, children: Children) -> _Parts:
        """Choose the server, write its files, put everything together; nothing is served yet."""
        notary = Notary(self._environ, self._notary_process)
        state = open_state_directory(self._settings.state_dir)
        readiness = Readiness(Path(self._settings.ready_file or state.file("ready")), self._emit)
        memory, ranks = MemoryWatch(), RanksHere()
        control = self._control(state, ranks, memory)
        control.listen()
        with contextlib.ExitStack() as undo:
            undo.callback(control.close)
            readiness.claim()
            prepared, keeper = await self._prepare_server(state, notary, readiness, children)
            undo.pop_all()
        return _Parts(
            state=state,
            prepared=prepared,
            notary=notary,
            readiness=readiness,
            keeper=keeper,
            ranks=ranks,
            control=control,
            memory=memory,
        )

    async def _prepare_server(
        self, state: StateDirectory, notary: Notary, readiness: Readiness, children: Children
    ) -> tuple[Prepared, ServerKeeper]:
        _refuse_another_address(self._settings.listen_address)
        preparation = Preparation(
            self._settings,
            self._arguments,
            environ=self._environ,
            account=own_account(),
            worker_name=self._name,
            state=state,
            emit=self._emit,
        )
        if preparation.backend is Backend.BUILTIN:  # loaded while the notary works
            import mpi_agent.worker.builtin  # noqa: F401
        prepared = await preparation.prepare(notary)
        plan, key = prepared.plan, prepared.credentials.job_key
        keeper = ServerKeeper(
            lambda: preparation.make_server(plan, children),
            plan,
            readiness,
            event=_ready_event(preparation.backend, prepared),
            check_login=None if key is None else OwnLogin(notary, plan, key),
            emit=self._emit,
        )
        return prepared, keeper

    def _control(self, state: StateDirectory, ranks: RanksHere, memory: MemoryWatch) -> Control:
        def last_words() -> tuple[Line, ...]:
            exceeded = memory.look()
            if exceeded is None:
                return ()
            self._emit(exceeded)
            return (_line_of(exceeded),)

        return Control(
            state=state,
            worker_name=self._name,
            lease_s=self._settings.launcher_gone_s,
            end_runs=lambda run_ids, _, *, grace_s: ranks.end_runs(run_ids, grace_s=grace_s),
            ranks=ranks,
            segments=Segments(),
            status=self._status,
            emit=self._emit,
            last_words=last_words,
        )

    async def _live(self, parts: _Parts, stopped: asyncio.Task[signal.Signals]) -> int:
        """Serve until somebody ends it, or until it cannot be served any more."""
        async with contextlib.AsyncExitStack() as stack:
            kept = await stack.enter_async_context(_running(parts.keeper.keep()))
            controlled = await stack.enter_async_context(_running(parts.control.serve()))
            over = await stack.enter_async_context(_running(parts.control.job_over()))
            emptied = await stack.enter_async_context(_running(_end_when_emptied(parts)))
            for work in self._side_work(parts):
                await stack.enter_async_context(_running(work))
            failures: tuple[asyncio.Task[None], ...] = (kept, controlled, emptied)
            ends: set[asyncio.Task[Any]] = {*failures, stopped}
            if self._settings.exit_with_launcher is not ExitWithLauncher.NEVER:
                ends.add(over)
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if stopped.done():
                    await self._drain(parts).after_signal(stopped.result(), self._stop)
                    return 0
                if over in ends and over.done():
                    await self._drain(parts).after_job()
                    wants_code = self._settings.exit_with_launcher is ExitWithLauncher.CODE
                    return over.result() if wants_code else 0
                failed = next(task for task in failures if task.done())
                await self._drain(parts).after_failure("ssh cannot be served", self._stop)
                await failed
                raise AssertionError("a server that was not stopped ended without a reason")
            finally:
                await parts.keeper.stop(0.0)

    def _drain(self, parts: _Parts) -> Drain:
        return Drain(
            readiness=parts.readiness,
            keeper=parts.keeper,
            control=parts.control,
            ranks=parts.ranks,
            drain_signal=signal.Signals[f"SIG{self._settings.drain_signal.value}"],
            grace_s=self._settings.grace_s,
            emit=self._emit,
        )

    def _side_work(self, parts: _Parts) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what goes on beside the server for as long as the worker lives."""

        def tell(exceeded: MemoryExceeded) -> None:
            self._emit(exceeded)
            parts.control.tell(_line_of(exceeded))

        watching = watch_memory(parts.memory, tell=tell, pace_s=_MEMORY_PACE_S, emit=self._emit)
        job_key = parts.prepared.credentials.job_key
        if job_key is None:
            return (watching,)
        renewing = renew_certificate(
            job_key,
            self._name,
            parts.state,
            notary=parts.notary,
            reload=parts.keeper.reload_identity,
            emit=self._emit,
        )
        return (watching, renewing)


def _end_when_emptied(parts: _Parts) -> Coroutine[Any, Any, None]:
    plan = parts.prepared.plan
    needed = (Path(plan.host_key), Path(plan.authorized_keys))
    return end_when_emptied(needed, parts.readiness, parts.ranks)


def _refuse_another_address(address: str | None) -> None:
    if address is not None and not is_own_address(address):
        raise SettingsError(
            f"cannot listen on {address}: it is no address of this container",
            hint="leave --listen-address out to listen on every address",
        )


def _ready_event(backend: Backend, prepared: Prepared) -> WorkerReady:
    plan = prepared.plan
    accepted = Path(plan.authorized_keys).read_text(errors="replace")
    return WorkerReady(
        server=backend.value,
        port=plan.port,
        user=plan.account,
        key_fingerprints=fingerprints_in(accepted),
    )


def _line_of(exceeded: MemoryExceeded) -> OutOfMemory:
    return OutOfMemory(
        kills=exceeded.kills,
        used_bytes=exceeded.used_bytes,
        limit_bytes=exceeded.limit_bytes,
        total_kills=exceeded.total_kills,
    )


@contextlib.asynccontextmanager
async def _running(work: Coroutine[Any, Any, _Result]) -> AsyncIterator[asyncio.Task[_Result]]:
    """Provide a task that is taken back at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
