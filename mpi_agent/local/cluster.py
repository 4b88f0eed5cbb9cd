"""Workers and a launcher on this machine, through the very same flows as in a cluster.

Each worker is an `mpi-agent worker` of its own on a loopback address of its own, reached by real
ssh; the launcher is the real one. The names need not resolve: our ssh_config maps them. Everything
lives in one temporary directory and is gone at the end, however the end comes.

A worker that ends before the program was started ends the launch: its log says why. From then on it
is for the launcher to notice, as in a cluster; and where the program may be begun again, another
worker takes the place of one that ended, as a controller would have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.children import Child, Children
from mpi_agent.command_settings import JobSettings, LaunchSettings, LocalSettings
from mpi_agent.container import own_python
from mpi_agent.errors import SettingsError, SshdEndedError
from mpi_agent.job.endings import ProcessExit, signal_name
from mpi_agent.job.events import Event, EventSink, Noted, ProgramStarted
from mpi_agent.job_access import LocalJob
from mpi_agent.launcher import Launcher
from mpi_agent.local.directories import temporary_directory, usable
from mpi_agent.run.signals import SignalInbox
from mpi_agent.ssh.keys import JobKey, make_job_key
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.state import open_state_directory

__all__ = ["LocalCluster"]

_TEMPORARY, _SHARED_MEMORY = "/tmp", "/dev/shm"
_SEGMENT_MAKERS = ("btl_sm", "btl_vader", "osc_sm", "osc_rdma")
_MOST_WORKERS = 250
_ONE_HOST_NAME = {"OMPI_MCA_coll": "^han"}
"""For workers that share the name of this machine, unless the user chose his collectives himself.

Source: Open MPI 5.0.11, 2 workers x 1 slot, 2026-11-30: of two ranks under daemons with the same
host name one takes the other for a neighbour and the other does not, so one uses `han`, and the
first allgather, barrier, broadcast or reduction hangs, in 10 of 10 runs and without the agent too;
with this 10 of 10 end.
"""
_WORKER_GRACE_S = 5.0
_LEFTOVER_GRACE_S = 1.0
_LOG_LINES_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalWorker:
    target: SshTarget
    child: Child
    log: Path


class LocalCluster:
    """Runs one program over workers that live as long as it does."""

    def __init__(
        self,
        settings: LocalSettings,
        program: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        emit: EventSink,
    ) -> None:
        if settings.workers > _MOST_WORKERS:
            raise SettingsError(
                f"cannot start {settings.workers} workers on one machine: at most {_MOST_WORKERS}",
                hint="ask for fewer workers with more --slots",
            )
        self._settings = settings
        self._program = program
        self._environ = {n: v for n, v in environ.items() if not n.startswith("MPI_AGENT_")}
        self._log = emit
        self._has_started = False

    def _emit(self, event: Event) -> None:
        self._has_started = self._has_started or isinstance(event, ProgramStarted)
        self._log(event)

    async def run(self, children: Children, inbox: SignalInbox) -> int:
        """Start workers, launch, end the workers; return the launcher's exit code.

        Raises:
            MpiAgentError: what the launcher raises; or a worker ended before the program began.
        """
        with (
            temporary_directory(usable(self._settings.state_dir or _TEMPORARY)) as root,
            temporary_directory(usable(_SHARED_MEMORY, otherwise=_TEMPORARY)) as segments,
        ):
            key = make_job_key(open_state_directory(str(root / "launcher")))
            start = functools.partial(
                self._start_worker, root=root, segments=segments, key=key, children=children
            )
            async with self._workers(start, children) as workers:
                launcher = Launcher(
                    self._launch_settings(root),
                    self._program,
                    environ=self._environ,
                    emit=self._emit,
                    local=LocalJob(
                        targets=tuple(worker.target for worker in workers.values()),
                        key=key,
                        search_path=(str(Path(sys.executable).parent),),
                    ),
                )
                launch = launcher.launch(children, inbox)
                return await self._launch_while_alive(launch, workers, start)

    def _launch_settings(self, root: Path) -> LaunchSettings:
        settings, names = self._settings, _worker_names(self._settings.workers)
        job = JobSettings(
            mpi=settings.mpi,
            timeout_s=settings.timeout_s,
            parallel=settings.parallel,
            state_dir=str(root / "launcher"),
            hosts=",".join(f"{name}:{settings.slots}" for name in names),
        )
        return LaunchSettings(job=job, run=settings.run)

    @contextlib.asynccontextmanager
    async def _workers(
        self, start: Callable[[SshTarget], _LocalWorker], children: Children
    ) -> AsyncIterator[dict[str, _LocalWorker]]:
        network = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
        workers: dict[str, _LocalWorker] = {}
        try:
            for index, name in enumerate(_worker_names(self._settings.workers)):
                address = f"{network}.{index + 1}"
                target = SshTarget(name=name, address=address, port=_free_port(address))
                workers[name] = start(target)
            yield workers
        finally:
            await asyncio.gather(*map(_end_worker, workers.values()))
            await children.sweep(_LEFTOVER_GRACE_S)

    async def _launch_while_alive(
        self,
        launch: Coroutine[None, None, int],
        workers: dict[str, _LocalWorker],
        start: Callable[[SshTarget], _LocalWorker],
    ) -> int:
        """Return the launcher's exit code, whatever becomes of workers once the program runs."""
        launching = asyncio.create_task(launch)
        lives = {asyncio.create_task(one.child.wait()): one for one in workers.values()}
        try:
            while not launching.done():
                await asyncio.wait({launching, *lives}, return_when=asyncio.FIRST_COMPLETED)
                for life in [life for life in lives if life.done() and not launching.done()]:
                    worker = lives.pop(life)
                    self._tell_end(worker, life.result())
                    if self._settings.run.supervision.restarts.max_restarts:
                        worker = workers[worker.target.name] = start(worker.target)
                        lives[asyncio.create_task(worker.child.wait())] = worker
            return launching.result()
        finally:
            for task in (launching, *lives):
                task.cancel()
            await asyncio.gather(launching, *lives, return_exceptions=True)

    def _tell_end(self, worker: _LocalWorker, end: ProcessExit) -> None:
        """Note that a worker ended under the program.

        Raises:
            SshdEndedError: the program has not begun.
        """
        if self._has_started:
            how = signal_name(end.signal) if end.signal is not None else f"exit code {end.code}"
            self._emit(Noted(text=f'"{worker.target.name}" ended with {how} under the program'))
            return
        error = SshdEndedError(
            f'cannot go on: "{worker.target.name}" ended before the program began',
            hint="its log says why",
            evidence=_last_lines(worker.log),
        )
        error.exit_code = end.code or SshdEndedError.exit_code
        raise error

    def _start_worker(
        self, target: SshTarget, *, root: Path, segments: Path, key: JobKey, children: Children
    ) -> _LocalWorker:
        log = root / f"{target.name}.log"
        argv = (
            *own_python(),
            "-m",
            "mpi_agent",
            "worker",
            "--state-dir",
            str(root / target.name),
            "--worker-name",
            target.name,
            "--listen-address",
            str(target.address),
            "--ssh-port",
            str(target.port),
            "--ssh-key",
            str(key.path),
            "--sshd",
            self._settings.sshd.value,
        )
        own = _own_places(segments / target.name, root / f"{target.name}.tmp")
        with log.open("ab") as stream:
            child = children.start(
                argv,
                env={**_ONE_HOST_NAME, **self._environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        return _LocalWorker(target=target, child=child, log=log)


def _worker_names(count: int) -> tuple[str, ...]:
    return tuple(f"local-worker-{index}" for index in range(count))


def _own_places(segments: Path, temporary: Path) -> dict[str, str]:
    """Return variables that keep what one worker's ranks share apart from the other workers'.

    Open MPI names segments and session directories after host name, job and local rank, which two
    workers on one machine have in common: ranks then crash in each other's memory.

    Source: seen 2026-11-30 without this: Open MPI 5.0.11 in mca_btl_sm_poll_handle_frag, 2 of 8
    runs (`vader` is its name in Open MPI 4); orted of 4.1.4 in hwloc_shmem_topology_write.
    """
    segments.mkdir(exist_ok=True)
    temporary.mkdir(exist_ok=True)
    backing = {f"OMPI_MCA_{name}_backing_directory": str(segments) for name in _SEGMENT_MAKERS}
    return {**backing, "TMPDIR": str(temporary)}


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _last_lines(log: Path) -> tuple[str, ...]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return tuple(lines[-_LOG_LINES_SHOWN:])


async def _end_worker(worker: _LocalWorker) -> None:
    worker.child.signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_WORKER_GRACE_S):
            await worker.child.wait()
    except TimeoutError:
        worker.child.signal(signal.SIGKILL)
