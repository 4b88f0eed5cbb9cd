"""Workers and a launcher on this machine, through the very same flows as in a cluster.

Each worker is an `mpi-agent worker` of its own on a loopback address of its own, reached by real
ssh; the launcher is the real one. The names need not resolve: our ssh_config maps them. Everything
lives in one temporary directory and is gone at the end, however the end comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.children import Child, Children
from mpi_agent.command_settings import JobSettings, LaunchSettings, LocalSettings
from mpi_agent.errors import SettingsError, SshdEndedError, StateDirectoryError
from mpi_agent.job.events import EventSink
from mpi_agent.job_access import LocalJob
from mpi_agent.launcher import Launcher
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
        self._emit = emit

    async def run(self, children: Children, inbox: SignalInbox) -> int:
        """Start workers, launch, end the workers; return the launcher's exit code.

        Raises:
            MpiAgentError: what the launcher raises; or a worker ended before the program did.
        """
        with (
            _temporary_directory(_usable(self._settings.state_dir or _TEMPORARY)) as root,
            _temporary_directory(_usable(_SHARED_MEMORY, otherwise=_TEMPORARY)) as segments,
        ):
            key = make_job_key(open_state_directory(str(root / "launcher")))
            async with self._workers(root, segments, key, children) as workers:
                launcher = Launcher(
                    self._launch_settings(root),
                    self._program,
                    environ=self._environ,
                    emit=self._emit,
                    local=LocalJob(
                        targets=tuple(worker.target for worker in workers),
                        key=key,
                        search_path=(str(Path(sys.executable).parent),),
                    ),
                )
                return await _launch_while_alive(launcher, workers, children, inbox)

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
        self, root: Path, segments: Path, key: JobKey, children: Children
    ) -> AsyncIterator[tuple[_LocalWorker, ...]]:
        network = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
        workers: list[_LocalWorker] = []
        try:
            for index, name in enumerate(_worker_names(self._settings.workers)):
                address = f"{network}.{index + 1}"
                target = SshTarget(name=name, address=address, port=_free_port(address))
                workers.append(self._start_worker(target, root, segments, key, children))
            yield tuple(workers)
        finally:
            await asyncio.gather(*(_end_worker(worker) for worker in workers))
            await children.sweep(_LEFTOVER_GRACE_S)

    def _start_worker(
        self, target: SshTarget, root: Path, segments: Path, key: JobKey, children: Children
    ) -> _LocalWorker:
        log = root / f"{target.name}.log"
        argv = (
            sys.executable,
            "-P",  # a types.py in the user's directory is no module of ours
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
        with log.open("wb") as stream:
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
    segments.mkdir()
    temporary.mkdir()
    backing = {f"OMPI_MCA_{name}_backing_directory": str(segments) for name in _SEGMENT_MAKERS}
    return {**backing, "TMPDIR": str(temporary)}


def _usable(parent: str, *, otherwise: str | None = None) -> str:
    """Return a directory in which we may make one of our own.

    Raises:
        StateDirectoryError: we may not, and there is nothing to fall back to.
    """
    if Path(parent).is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return parent
    if otherwise is not None:
        return _usable(otherwise)
    raise StateDirectoryError(
        f'cannot keep the job\'s files in "{parent}": it is no directory that can be written to',
        hint="name another one with --state-dir",
    )


def _own_prefix() -> str:
    """Return a prefix that only runs in our pid namespace have: a pid means nothing elsewhere."""
    return f"mpi-agent-local-{Path('/proc/self/ns/pid').stat().st_ino}-"


def _remove_leftovers(parent: str) -> None:
    """Remove what an earlier run of ours left because it was killed: its pid is gone."""
    for left in Path(parent).glob(f"{_own_prefix()}[0-9]*-*"):
        pid = left.name.removeprefix(_own_prefix()).split("-")[0]
        with contextlib.suppress(OSError):
            if left.stat().st_uid == os.getuid() and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _temporary_directory(parent: str) -> Iterator[Path]:
    """Provide a directory with a short path: sockets below it may have 108 bytes."""
    _remove_leftovers(parent)
    try:
        root = Path(tempfile.mkdtemp(prefix=f"{_own_prefix()}{os.getpid()}-", dir=parent))
    except OSError as error:
        raise StateDirectoryError(
            f'cannot keep the job\'s files in "{parent}": {error.strerror}',
            hint="name a writable directory with --state-dir",
        ) from error
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


async def _launch_while_alive(
    launcher: Launcher,
    workers: tuple[_LocalWorker, ...],
    children: Children,
    inbox: SignalInbox,
) -> int:
    """Return the launcher's exit code; a worker that ends first ends the launch."""
    launch = asyncio.create_task(launcher.launch(children, inbox))
    lives = {asyncio.create_task(worker.child.wait()): worker for worker in workers}
    try:
        await asyncio.wait({launch, *lives}, return_when=asyncio.FIRST_COMPLETED)
        if launch.done():
            return launch.result()
        worker = next(worker for life, worker in lives.items() if life.done())
        error = SshdEndedError(
            f'cannot go on: "{worker.target.name}" ended before the program did',
            hint="its log says why",
            evidence=_last_lines(worker.log),
        )
        error.exit_code = (await worker.child.wait()).code or SshdEndedError.exit_code
        raise error
    finally:
        for task in (launch, *lives):
            task.cancel()
        await asyncio.gather(launch, *lives, return_exceptions=True)


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
