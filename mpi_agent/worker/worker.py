"""The worker's story on one page: prepare keys, run an ssh server, say when it is ready, drain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from mpi_agent.children import Children
from mpi_agent.command_settings import WorkerSettings
from mpi_agent.container import has_rdma, interface_of_pod, own_account
from mpi_agent.environment import interface_variables, session_variables
from mpi_agent.errors import SettingsError, SshdEndedError
from mpi_agent.job.events import EventSink, Noted, WorkerDraining, WorkerReady
from mpi_agent.settings import Backend
from mpi_agent.ssh.banner import NotSshError, read_banner
from mpi_agent.ssh.trust import fingerprints_in
from mpi_agent.state import StateDirectory, open_state_directory
from mpi_agent.worker.credentials import Credentials, prepare_credentials
from mpi_agent.worker.dialling import write_dialling_files
from mpi_agent.worker.openssh import OpenSshServer, find_sshd, parents_are_private
from mpi_agent.worker.readiness import ReadyFile, probe_readiness
from mpi_agent.worker.server import SshServer
from mpi_agent.worker.sshd_arguments import choose_port, read_sshd_arguments
from mpi_agent.worker.sshd_config import SshdPlan, announcement_of

__all__ = ["Worker"]

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BANNER_PAUSE_S = 0.02
_BANNER_LIMIT_S = 2.0
_START_LIMIT_S = 30.0
_LOOPBACK = ("127.", "::1")


class Worker:
    """One worker, from its start to the end of its container.

    Args:
        sshd_arguments: what the manifest gave to sshd; only the port is taken from it.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        sshd_arguments: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        emit: EventSink,
    ) -> None:
        self._settings = settings
        self._arguments = sshd_arguments
        self._environ = environ
        self._emit = emit
        self._account = own_account()
        self._name = settings.worker_name or socket.gethostname()

    async def run(self) -> int:
        """Serve until told to stop; return 0 then.

        Raises:
            HostKeyError, SshdConfigError, SettingsError: the worker cannot serve.
            SshdEndedError: the ssh server went away by itself.
        """
        stop = _StopSignal()
        with Children() as children, stop:
            state = open_state_directory(self._settings.state_dir)
            ready_file = Path(self._settings.ready_file or state.file("ready"))
            _claim(ready_file)
            plan = self._prepare(state)
            backend = self._choose_backend()
            server = self._make_server(backend, plan, state, children)
            await server.start()
            children.adopt_orphans()
            try:
                return await self._serve(server, backend, plan, ready_file, stop)
            finally:
                ready_file.unlink(missing_ok=True)
                if killed := await server.stop(self._settings.grace_s):
                    self._emit(Noted(text=f"{killed} processes ignored TERM and were killed"))

    def _prepare(self, state: StateDirectory) -> SshdPlan:
        """Write every file that the ssh server needs and return its plan."""
        arguments = read_sshd_arguments(self._arguments)
        port, port_notes = choose_port(
            self._settings.ssh_port, arguments, lambda name: Path(name).read_text(errors="replace")
        )
        credentials = prepare_credentials(
            self._settings.ssh_key, self._name, self._account, state, self._emit
        )
        if credentials.job_key is not None:
            write_dialling_files(
                credentials.job_key, user=self._account.name, port=port, state=state
            )
        variables = session_variables(self._environ)
        for note in (*arguments.notes, *port_notes, *variables.left_out):
            self._emit(Noted(text=note))
        return self._plan(port, credentials, (*variables.variables, *self._interface_variables()))

    def _interface_variables(self) -> tuple[tuple[str, str], ...]:
        """Return what tells NCCL, Gloo, libfabric and UCX the pod's interface.

        They would guess it otherwise, UCX only where there is no RDMA device for it to use.
        A worker that listens on loopback has its peers there too.
        """
        if (self._settings.listen_address or "").startswith(_LOOPBACK):
            return ()
        return interface_variables(self._environ, interface_of_pod(), has_rdma=has_rdma())

    def _plan(
        self, port: int, credentials: Credentials, variables: tuple[tuple[str, str], ...]
    ) -> SshdPlan:
        certificate = credentials.host_certificate
        # bash reads ~/.bashrc when sshd starts it, unless SHLVL is set (bash 5.2, shell.c); such
        # files in images may print or hang.
        own = (("MPI_AGENT_WORKER_NAME", self._name), ("SHLVL", "1"))
        return SshdPlan(
            port=port,
            listen_address=self._settings.listen_address,
            account=self._account.name,
            worker_name=self._name,
            host_key=str(credentials.host_key),
            host_certificate=str(certificate) if certificate else None,
            authorized_keys=str(credentials.authorized_keys),
            strict_modes=parents_are_private(credentials.authorized_keys),
            variables=tuple(sorted((*own, *variables))),
        )

    def _choose_backend(self) -> Backend:
        """Return OpenSSH where it is installed and takes this account, else the built-in server."""
        wanted, sshd = self._settings.sshd, find_sshd()
        if wanted is Backend.OPENSSH and sshd is None:
            raise SettingsError(
                "cannot run OpenSSH's server: there is no sshd in this image",
                hint="install openssh-server, or leave --sshd out and the built-in one serves",
            )
        if wanted is not Backend.AUTO:
            return wanted
        usable = sshd is not None and self._account.has_passwd_entry
        return Backend.OPENSSH if usable else Backend.BUILTIN

    def _make_server(
        self, backend: Backend, plan: SshdPlan, state: StateDirectory, children: Children
    ) -> SshServer:
        sshd = find_sshd()
        if backend is Backend.OPENSSH and sshd is not None:
            return OpenSshServer(sshd, plan, state, children)
        from mpi_agent.worker.builtin import BuiltinServer

        return BuiltinServer(plan, self._account, children)

    async def _serve(
        self,
        server: SshServer,
        backend: Backend,
        plan: SshdPlan,
        ready_file: Path,
        stop: _StopSignal,
    ) -> int:
        """Announce readiness and serve until a stop signal or the server's own end."""
        ended = asyncio.create_task(server.wait())
        stopped = asyncio.create_task(stop.wait())
        ready = asyncio.create_task(_until_own_banner(plan))
        try:
            await asyncio.wait((ended, stopped, ready), return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and ready.result():
                self._announce(ready_file, backend, plan)
                await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                ready_file.unlink(missing_ok=True)
                self._emit(WorkerDraining(signal_name=signal.Signals(stopped.result()).name))
                return 0
            raise SshdEndedError(
                f"cannot serve ssh on port {plan.port}: {self._why(ended, plan)}",
                hint="see the lines above; another port is chosen with --ssh-port",
            )
        finally:
            for task in (ended, stopped, ready):
                task.cancel()
            await asyncio.gather(ended, stopped, ready, return_exceptions=True)

    @staticmethod
    def _why(ended: asyncio.Task[str], plan: SshdPlan) -> str:
        if ended.done():
            return ended.result()
        return f"what answers on {plan.dial_address} is not this worker's own server"

    def _announce(self, ready_file: Path, backend: Backend, plan: SshdPlan) -> None:
        told = ReadyFile(
            pid=os.getpid(),
            address=plan.dial_address,
            port=plan.port,
            announcement=announcement_of(plan.worker_name),
        )
        StateDirectory(ready_file.parent).write(ready_file.name, told.render(), mode=0o644)
        accepted = fingerprints_in(Path(plan.authorized_keys).read_text(errors="replace"))
        self._emit(
            WorkerReady(
                server=backend.value,
                port=plan.port,
                user=plan.account,
                key_fingerprints=accepted,
            )
        )


def _claim(ready_file: Path) -> None:
    """Make the place of the ready file ours, before anything is started.

    Raises:
        SettingsError: a worker that is alive has it, or it cannot be written.
    """
    if ready_file.exists() and probe_readiness(ready_file) is None:
        raise SettingsError(
            f'cannot start: another worker is ready and keeps its files at "{ready_file.parent}"',
            hint="one worker a container; a second one needs --state-dir of its own",
        )
    if not os.access(ready_file.parent, os.W_OK):
        raise SettingsError(
            f'cannot write the ready file "{ready_file}": its directory is missing or read-only',
            hint="name a writable place with --ready-file",
        )
    ready_file.unlink(missing_ok=True)


async def _until_own_banner(plan: SshdPlan) -> bool:
    """Return whether our own server answered on our own port before the time limit."""
    deadline_s = asyncio.get_running_loop().time() + _START_LIMIT_S
    while asyncio.get_running_loop().time() < deadline_s:
        with contextlib.suppress(OSError, NotSshError):
            banner = await asyncio.to_thread(
                read_banner, plan.dial_address, plan.port, timeout_s=_BANNER_LIMIT_S
            )
            if banner.endswith(announcement_of(plan.worker_name)):
                return True
        await asyncio.sleep(_BANNER_PAUSE_S)
    return False


class _StopSignal:
    """The first TERM or INT; `with` installs and removes the handlers."""

    def __init__(self) -> None:
        self._received: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> None:
        for number in _STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._take, number)

    def __exit__(self, *_: object) -> None:
        for number in _STOP_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _take(self, number: int) -> None:
        if not self._received.done():
            self._received.set_result(number)

    async def wait(self) -> int:
        """Return the signal's number once it came."""
        return await asyncio.shield(self._received)
