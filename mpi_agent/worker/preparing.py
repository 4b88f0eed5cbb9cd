"""Prepares a worker: chooses its ssh server, writes the files of that, plans its sessions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mpi_agent.children import Children
from mpi_agent.container import Account, has_rdma, interface_of_pod
from mpi_agent.environment import interface_variables, session_variables
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.setting_words import Backend, LoginFiles
from mpi_agent.ssh.installed import choose_client, write_client
from mpi_agent.ssh.nss_wrapper import nss_wrapper_variables, write_accounts
from mpi_agent.state import StateDirectory
from mpi_agent.variable_names import WORKER_CALL_VARIABLE
from mpi_agent.worker.backend import BackendChoice, check_port, choose_backend
from mpi_agent.worker.call_program import write_call_program
from mpi_agent.worker.credentials import Credentials, prepare_credentials
from mpi_agent.worker.dialling import write_dialling_files
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.openssh import OpenSshServer, SshdHeritage, parents_are_private
from mpi_agent.worker.server import SshServer
from mpi_agent.worker.server_facts import (
    gather_server_facts,
    login_shell,
    make_chroot_directory,
)
from mpi_agent.worker.session_script import render_session_script, why_by_script
from mpi_agent.worker.sshd_arguments import (
    DEFAULT_PORT,
    SshdWishes,
    expand_key_file,
    read_sshd_arguments,
)
from mpi_agent.worker.sshd_config import ForcedScript, SshdPlan
from mpi_agent.worker_settings import WorkerSettings

__all__ = ["Preparation", "Prepared"]

_LOOPBACK = ("127.", "::1")
_SCRIPT_NAME, _EMPTY_HOME_NAME = "session", "no-login-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A worker whose files are written and whose server has not been started."""

    plan: SshdPlan
    credentials: Credentials


class Preparation:
    """What the settings, the user's sshd arguments and the container make of a worker.

    Making it chooses the server, before anything is written.

    Args:
        worker_name: by which the worker is known.
        state: the private directory.

    Raises:
        SshdConfigError: OpenSSH is asked for and cannot serve here.
        SettingsError: this account may not listen on the port.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        sshd_arguments: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        account: Account,
        worker_name: str,
        state: StateDirectory,
        emit: EventSink,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._account = account
        self._name = worker_name
        self._state = state
        self._emit = emit
        self._wishes = read_sshd_arguments(
            sshd_arguments, lambda name: Path(name).read_text(errors="replace")
        )
        self._facts = gather_server_facts(account)
        self._choice = choose_backend(settings.sshd, self._facts)
        check_port(self._port, self._facts)
        self._heritage = SshdHeritage()

    @property
    def backend(self) -> Backend:
        """OpenSSH or the built-in server."""
        return self._choice.backend

    async def prepare(self, notary: Notary) -> Prepared:
        """Write every file that the server needs; return its plan.

        Raises:
            HostKeyError: there is no key of the job that can be used.
            StateDirectoryError: a file cannot be written.
            SshdConfigError: a directory that OpenSSH needs cannot be made.
        """
        credentials = await prepare_credentials(
            self._settings.ssh_key,
            self._name,
            self._account,
            self._state,
            notary=notary,
            emit=self._emit,
        )
        if credentials.job_key is not None:
            write_dialling_files(
                credentials.job_key, user=self._account.name, port=self._port, state=self._state
            )
            client = choose_client(Backend.AUTO, self._account)
            write_client(client, self._account, self._state)
        self._add_keys(credentials.authorized_keys)
        self._note(_notes_on(self._choice, self._facts.sshd, self._wishes))
        plan = self._plan(credentials)
        if self.backend is Backend.OPENSSH:
            plan = self._for_openssh(plan)
        return Prepared(plan=plan, credentials=credentials)

    def make_server(self, plan: SshdPlan, children: Children) -> SshServer:
        """Return a server that has not been started."""
        if self.backend is Backend.OPENSSH and self._facts.sshd is not None:
            return OpenSshServer(
                self._facts.sshd,
                plan,
                self._state,
                children,
                emit=self._emit,
                heritage=self._heritage,
            )
        from mpi_agent.worker.builtin import BuiltinServer

        return BuiltinServer(plan, children, emit=self._emit)

    @property
    def _port(self) -> int:
        return self._settings.ssh_port or self._wishes.port or DEFAULT_PORT

    @property
    def _listen_address(self) -> str | None:
        return self._settings.listen_address or self._wishes.listen_address

    def _plan(self, credentials: Credentials) -> SshdPlan:
        certificate = credentials.host_certificate
        return SshdPlan(
            port=self._port,
            listen_address=self._listen_address,
            account=self._account.name,
            home=str(self._account.home or "/"),
            shell=login_shell(self._account),
            worker_name=self._name,
            host_key=str(credentials.host_key),
            host_certificate=str(certificate) if certificate else None,
            authorized_keys=str(credentials.authorized_keys),
            strict_modes=parents_are_private(credentials.authorized_keys),
            variables=self._variables(),
            working_directory=_working_directory(self._account),
            login_files=self._settings.login_files,
            own_directives=self._wishes.directives,
        )

    def _variables(self) -> tuple[tuple[str, str], ...]:
        """Return what every session has.

        SHLVL keeps bash from reading ~/.bashrc when sshd starts it (bash 5.2, shell.c).
        """
        found = session_variables(self._environ)
        self._note(found.left_out)
        own = [
            ("MPI_AGENT_WORKER_NAME", self._name),
            (WORKER_CALL_VARIABLE, str(write_call_program(self._state))),
        ]
        if self._settings.login_files is not LoginFiles.READ:
            own.append(("SHLVL", "1"))
        return tuple(sorted((*own, *found.variables, *self._interface_variables())))

    def _interface_variables(self) -> tuple[tuple[str, str], ...]:
        """Return what tells NCCL, Gloo, libfabric and UCX the pod's interface.

        They would guess it otherwise, UCX only where there is no RDMA device for it to use.
        A worker that listens on loopback has its peers there too.
        """
        if (self._listen_address or "").startswith(_LOOPBACK):
            return ()
        return interface_variables(self._environ, interface_of_pod(), has_rdma=has_rdma())

    def _for_openssh(self, plan: SshdPlan) -> SshdPlan:
        """Return the plan with what OpenSSH alone needs, written."""
        if self._account.uid == 0:
            make_chroot_directory()
        if self._choice.needs_nss_wrapper and self._facts.nss_wrapper is not None:
            write_accounts(self._account, self._state)
            preloaded = self._environ.get("LD_PRELOAD", "")
            variables = nss_wrapper_variables(self._facts.nss_wrapper, self._state, preloaded)
            plan = replace(plan, server_environment=variables)
        if (why := why_by_script(plan)) is None:
            return plan
        self._note((f"a script of ours begins every session, because {why}",))
        path = self._state.write(_SCRIPT_NAME, render_session_script(plan)).absolute()
        home = self._state.file(_EMPTY_HOME_NAME).absolute()
        home.mkdir(mode=0o700, exist_ok=True)
        return replace(plan, script=ForcedScript(path=str(path), home=str(home)))

    def _add_keys(self, authorized_keys: Path) -> None:
        """Let the keys of the user's own AuthorizedKeysFile in, too; ours is a copy of them."""
        lines = authorized_keys.read_bytes().splitlines()
        count = len(lines)
        for name in self._wishes.key_files:
            path = expand_key_file(
                name, account=self._account.name, home=str(self._account.home or "/")
            )
            try:
                found = Path(path).read_bytes().splitlines()
            except OSError as error:
                self._note((f'authorized keys "{path}" cannot be read: {error.strerror}',))
                continue
            lines += [line for line in found if line.strip() and line not in lines]
        if len(lines) > count:
            self._state.write(authorized_keys.name, b"\n".join((*lines, b"")))

    def _note(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._emit(Noted(text=text))


def _notes_on(choice: BackendChoice, sshd: str | None, wishes: SshdWishes) -> tuple[str, ...]:
    """Return what the user should read about the choice and about his arguments."""
    notes = list(wishes.notes)
    if choice.why_not_openssh is not None and sshd is not None:
        notes.append(
            f"the built-in ssh server serves, for OpenSSH's cannot: {choice.why_not_openssh}"
        )
    if choice.backend is Backend.BUILTIN and wishes.directives:
        names = ", ".join(keyword for keyword, _ in wishes.directives)
        notes.append(f"the built-in ssh server has no use for {names}")
    return tuple(notes)


def _working_directory(account: Account) -> str | None:
    """Return our own directory; None for the account's home, and for `/`, which nobody chose."""
    try:
        found = os.getcwd()
    except OSError:
        return None
    home = account.home
    is_home = home is not None and home.is_dir() and os.path.samefile(found, home)
    return None if found == "/" or is_home else found
