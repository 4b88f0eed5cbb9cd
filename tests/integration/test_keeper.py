"""Keeping a real ssh server up, trying a real login, showing a certificate that was renewed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncssh
import psutil
import pytest

from mpi_agent.children import Children
from mpi_agent.container import own_account, own_addresses
from mpi_agent.errors import SshdConfigError, SshdEndedError
from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import (
    LoginRefused,
    SshServerEnded,
    WorkerNotReady,
    WorkerReady,
)
from mpi_agent.setting_words import Backend, DrainSignal, ExitWithLauncher, LoginFiles
from mpi_agent.ssh.keys import JobKey
from mpi_agent.state import StateDirectory, open_state_directory
from mpi_agent.worker.keeper import ServerKeeper
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.notary_words import CertificateQuestion
from mpi_agent.worker.openssh import OpenSshServer, SshdHeritage
from mpi_agent.worker.own_login import OwnLogin, own_login_address
from mpi_agent.worker.preparing import Preparation
from mpi_agent.worker.readiness import Readiness
from mpi_agent.worker.restarts import RestartPolicy
from mpi_agent.worker.sshd_config import SshdPlan
from mpi_agent.worker_settings import WorkerSettings
from tests.fakes import EventRecorder
from tests.workers import (
    OPENSSH_CLIENT,
    JobKeys,
    RunningWorker,
    dial,
    environment_for,
    free_address,
    listens,
    make_job_keys,
    require_program,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

NAME = "pi-worker-0"
_CERTIFICATE_TYPE = "ssh-ed25519-cert-v01@openssh.com"
QUICK = RestartPolicy(first_pause_s=0.01, longest_pause_s=0.05, most_failures=4)
LoginCheck = Callable[[], Awaitable[str | None]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A worker's server under a keeper, in this very process."""

    plan: SshdPlan
    job_key: JobKey
    notary: Notary
    children: Children
    keeper: ServerKeeper
    readiness: Readiness
    events: EventRecorder
    address: str
    state: Path

    @property
    def sshd(self) -> psutil.Process:
        """The listener."""
        (child,) = self.children.running
        return psutil.Process(child.pid)

    def told(self, kind: type[Event]) -> list[Event]:
        """Return the events of one kind."""
        return [event for event in self.events.events if isinstance(event, kind)]

    def config(self, keys: JobKeys, root: Path) -> Path:
        """Return an ssh_config that dials it."""
        worker = RunningWorker(
            name=NAME,
            address=self.address,
            port=self.plan.port,
            user=self.plan.account,
            state=self.state,
            log=self.state,
            popen=subprocess.Popen(("true",)),
        )
        worker.popen.wait()
        return write_ssh_config(keys, root, (worker,))


def settings_of(keys: JobKeys, backend: Backend, address: str, port: int) -> WorkerSettings:
    """Return a worker's settings."""
    return WorkerSettings(
        ssh_port=port,
        ssh_key=str(keys.private_path),
        sshd=backend,
        listen_address=address,
        worker_name=NAME,
        login_files=LoginFiles.SKIP,
        drain_signal=DrainSignal.TERM,
        launcher_gone_s=None,
        exit_with_launcher=ExitWithLauncher.NEVER,
        ready_file=None,
        http_port=None,
        grace_s=1.0,
        state_dir=None,
    )


@contextlib.asynccontextmanager
async def waiting_session(config: Path) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Give a session that waits for a word, echoes it and ends with code 7."""
    with subprocess.Popen(
        ("ssh", "-F", str(config), NAME, "echo up; read word; echo $word; exit 7"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as session:
        assert session.stdout is not None
        assert await asyncio.to_thread(session.stdout.readline) == b"up\n"
        yield session


@contextlib.asynccontextmanager
async def kept_server(
    keys: JobKeys,
    root: Path,
    backend: Backend,
    *,
    check: LoginCheck = None,
    real_login: bool = True,
    where: tuple[str, int] | None = None,
) -> AsyncIterator[Kept]:
    """Give a prepared server with its keeper, which the test has to run."""
    address, port = where or free_address()
    events = EventRecorder()
    state = open_state_directory(str(root / "state"))
    with Children() as children, Readiness(state.file("ready"), events) as readiness:
        notary = Notary(environment_for(None))
        preparation = Preparation(
            settings_of(keys, backend, address, port),
            (),
            environ=environment_for(None),
            account=own_account(),
            worker_name=NAME,
            state=state,
            emit=events,
        )
        prepared = await preparation.prepare(notary)
        plan, key = prepared.plan, prepared.credentials.job_key
        assert key is not None
        keeper = ServerKeeper(
            lambda: preparation.make_server(plan, children),
            plan,
            readiness,
            event=WorkerReady(server=backend.value, port=port, user=plan.account),
            check_login=OwnLogin(notary, plan, key) if real_login else check,
            emit=events,
            policy=QUICK,
        )
        try:
            yield Kept(
                plan=plan,
                job_key=key,
                notary=notary,
                children=children,
                keeper=keeper,
                readiness=readiness,
                events=events,
                address=address,
                state=state.path,
            )
        finally:
            await notary.end()
            await keeper.stop(1.0)


async def until(claim: str, check: Callable[[], bool], *, limit_s: float = 30.0) -> None:
    """Return once a condition holds."""
    try:
        async with asyncio.timeout(limit_s):
            while not check():
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise AssertionError(f"not within {limit_s:g} s: {claim}") from error


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's story with a limit."""

    async def limited() -> None:
        async with asyncio.timeout(90):
            await work

    asyncio.run(limited())


def test_a_server_becomes_ready_after_a_login_and_ends_on_purpose_without_a_failure(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """The notary's process is gone by then, and the end is no end of its own."""

    async def story() -> None:
        async with kept_server(keys, root, Backend(backend)) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            words = [" ".join(child.cmdline()) for child in psutil.Process().children()]
            kept.keeper.stop_listening()
            await keeping

            assert not [line for line in words if "notary" in line]
            assert not kept.told(SshServerEnded)
            assert not kept.told(WorkerNotReady)

    run(story())


def test_a_login_that_fails_keeps_the_worker_from_being_ready_and_is_told_once(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """Each reason once, however often it is met, and the worker is ready once the login works."""
    answers = ["refused", "refused", "no answer", "refused", None]

    async def story() -> None:
        tried: list[bool] = []

        async def check() -> str | None:
            tried.append(kept.readiness.is_ready)
            return answers[len(tried) - 1]

        async with kept_server(keys, root, Backend(backend), check=check, real_login=False) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

            told = [event.why for event in kept.told(WorkerNotReady)]  # type: ignore[attr-defined]
            assert told == ["refused", "no answer"]
            assert tried == [False] * len(answers)

    run(story())


def test_own_login_insists_on_the_certificate_of_this_job_for_our_own_name(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """Whoever else listens on our port is not taken for ourselves, nor is another account."""
    others = make_job_keys(root / "others")

    async def story() -> None:
        async with kept_server(keys, root, Backend(backend), real_login=False) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            foreign = replace(kept.job_key, public=" ".join(others.public.split()[:2]))

            own = await OwnLogin(kept.notary, kept.plan, kept.job_key)()
            by_other_key = await OwnLogin(kept.notary, kept.plan, foreign)()
            renamed = replace(kept.plan, worker_name="pi-worker-1")
            by_other_name = await OwnLogin(kept.notary, renamed, kept.job_key)()
            other_user = replace(kept.plan, account="daemon")
            by_other_user = await OwnLogin(kept.notary, other_user, kept.job_key)()
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

            where = f"a login on {kept.address} port {kept.plan.port} fails"
            assert own is None
            assert by_other_key is not None
            assert by_other_key.startswith(f"{where}: the host key is not certified")
            assert by_other_name is not None
            assert 'the job\'s key for "pi-worker-1"' in by_other_name
            assert by_other_user == f'{where}: the job\'s key is refused for user "daemon"'

    run(story())


def test_a_worker_that_listens_everywhere_logs_in_by_an_address_of_its_own() -> None:
    """As the launcher will, not through loopback, and without asking for any name."""
    everywhere = {own_login_address(address) for address in (None, "0.0.0.0", "::")}

    assert own_login_address("10.1.2.3") == "10.1.2.3"
    assert everywhere <= {*own_addresses(), "127.0.0.1"}
    assert len(everywhere) == 1


def test_sessions_go_on_when_their_sshd_dies_and_another_one_takes_new_logins(
    root: Path, keys: JobKeys
) -> None:
    """They become ours, and the dead one's successor is ready at once."""
    require_program("sshd")

    async def story() -> None:
        async with kept_server(keys, root, Backend.OPENSSH) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            config = kept.config(keys, root)
            async with waiting_session(config) as session:
                await asyncio.sleep(QUICK.shortest_life_s)  # for its life to be a good one
                first = kept.sshd
                (own_session,) = first.children()
                first.kill()
                await until("it is told", lambda: bool(kept.told(SshServerEnded)))
                await until("another one is ready", lambda: kept.readiness.is_ready)
                parent = own_session.ppid()
                ended = await asyncio.to_thread(dial, OPENSSH_CLIENT, config, NAME, "exit 3")
                out, _ = await asyncio.to_thread(session.communicate, b"on\n")
            second = kept.sshd
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

            (end,) = kept.told(SshServerEnded)
            assert isinstance(end, SshServerEnded)
            assert (end.why, end.restart_in_s) == ("sshd ended by SIGKILL", 0.0)
            assert second != first
            assert parent == os.getpid()
            assert ended.returncode == 3, ended.stderr
            assert (session.returncode, out) == (7, b"on\n")

    run(story())


def test_renewed_certificate_is_shown_while_sessions_and_the_process_go_on(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """OpenSSH reads its files again on HUP and keeps its process id; the built-in one is told."""
    require_program("ssh-keyscan")

    async def story() -> None:
        async with kept_server(keys, root, Backend(backend)) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            config = kept.config(keys, root)
            listener = kept.sshd if backend == "openssh" else None
            async with waiting_session(config) as session:
                before = await asyncio.to_thread(shown_certificate, kept)
                await renew(kept)
                kept.keeper.reload_identity()
                renewed = (kept.state / "host_key-cert.pub").read_text().split()[1]
                while await asyncio.to_thread(shown_certificate, kept) != renewed:
                    await asyncio.sleep(0.05)
                ended = await asyncio.to_thread(dial, OPENSSH_CLIENT, config, NAME, "exit 3")
                out, _ = await asyncio.to_thread(session.communicate, b"on\n")
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

            assert before not in ("", renewed)
            assert listener is None or kept.sshd == listener
            assert not kept.told(SshServerEnded)
            assert ended.returncode == 3, ended.stderr
            assert (session.returncode, out) == (7, b"on\n")

    run(story())


async def renew(kept: Kept) -> None:
    """Have the certificate signed anew, for one more name."""
    await kept.notary.ask(
        CertificateQuestion(
            directory=str(kept.state),
            job_key=str(kept.job_key.path),
            origin="",
            principals=(NAME, "another-name"),
            lifetime_s=3600.0,
        )
    )


def shown_certificate(kept: Kept) -> str:
    """Return the certificate that whoever dials is shown; empty where nobody answers."""
    scanned = subprocess.run(
        ("ssh-keyscan", "-c", "-t", "ed25519", "-p", str(kept.plan.port), kept.address),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.split() for line in scanned.stdout.splitlines())
    return next((words[1] for words in lines if words[:1] == [_CERTIFICATE_TYPE]), "")


def test_a_port_that_becomes_free_within_the_budget_is_taken(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """With hostNetwork the predecessor may still be ending; the reason is told meanwhile."""
    address, port = free_address()

    async def story() -> None:
        with socket.socket() as holder:
            holder.bind((address, port))
            holder.listen()
            async with kept_server(keys, root, Backend(backend), where=(address, port)) as kept:
                keeping = asyncio.create_task(kept.keeper.keep())
                await until("it is told", lambda: bool(kept.told(SshServerEnded)))
                was_ready = kept.readiness.is_ready
                holder.close()
                await until("it is ready", lambda: kept.readiness.is_ready)
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

                assert not was_ready
                (first, *_) = kept.told(SshServerEnded)
                assert isinstance(first, SshServerEnded)
                assert "in use" in first.why or "bind" in first.why

    run(story())


def test_a_port_that_stays_taken_ends_the_worker_with_cause_and_hint(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """After so many starts, and with the code that says that a retry may help."""
    address, port = free_address()

    async def story() -> None:
        with socket.socket() as holder:
            holder.bind((address, port))
            holder.listen()
            async with kept_server(keys, root, Backend(backend), where=(address, port)) as kept:
                with pytest.raises(SshdEndedError) as caught:
                    await kept.keeper.keep()

                ends = kept.told(SshServerEnded)
                assert caught.value.exit_code == 202
                assert str(port) in caught.value.summary
                assert "--ssh-port" in caught.value.hint
                assert len(ends) == QUICK.most_failures
                assert [getattr(end, "restart_in_s", 0) is None for end in ends][-1]
                assert not kept.told(WorkerReady)

    run(story())


def test_another_workers_server_on_our_port_is_never_taken_for_ours(
    root: Path, keys: JobKeys
) -> None:
    """It answers with a banner, and with another name in it."""
    address, port = free_address()

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2 mpi-agent pi-worker-1\r\n")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async def story() -> None:
        stranger = await asyncio.start_server(greet, address, port)
        async with (
            stranger,
            kept_server(keys, root, Backend.BUILTIN, where=(address, port)) as kept,
        ):
            with pytest.raises(SshdEndedError):
                await kept.keeper.keep()

            assert not kept.told(WorkerReady)
            assert not (kept.state / "ready").exists()

    run(story())


def test_a_keeper_that_was_stopped_starts_nothing_more(root: Path, keys: JobKeys) -> None:
    """Not even when it is stopped between two lives of the server."""
    require_program("sshd")

    async def story() -> None:
        async with kept_server(keys, root, Backend.OPENSSH) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            kept.sshd.kill()
            kept.keeper.stop_listening()
            await keeping

            assert not kept.children.running
            assert not kept.told(SshServerEnded)

    run(story())


class StoppedOnceItListens(OpenSshServer):
    """An sshd that hangs before it has answered anybody."""

    async def start(self) -> None:
        """Start it, and stop it once it has the port."""
        await super().start()
        plan = self._plan
        await until("it listens", lambda: listens(plan.dial_address, plan.port))
        assert self._child is not None
        self._child.signal(signal.SIGSTOP)


def test_an_sshd_that_hangs_makes_way_for_the_next_one(root: Path, keys: JobKeys) -> None:
    """It would hold the port for ever: a process that is stopped does not hear TERM."""
    sshd = require_program("sshd")

    async def story() -> None:
        async with kept_server(keys, root, Backend.OPENSSH, real_login=False) as kept:
            kinds: list[type[OpenSshServer]] = [OpenSshServer, StoppedOnceItListens]
            state = StateDirectory(kept.state)
            keeper = ServerKeeper(
                lambda: kinds.pop()(sshd, kept.plan, state, kept.children, emit=kept.events),
                kept.plan,
                kept.readiness,
                event=WorkerReady(server="openssh", port=kept.plan.port, user=kept.plan.account),
                check_login=None,
                emit=kept.events,
                policy=replace(QUICK, answer_limit_s=0.1),
            )
            keeping = asyncio.create_task(keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready or keeping.done())
            is_ready = kept.readiness.is_ready
            await keeper.stop(1.0)
            await keeping

            (end,) = kept.told(SshServerEnded)
            assert isinstance(end, SshServerEnded)
            assert end.why.startswith("no ssh banner on")
            assert is_ready

    run(story())


def test_what_sessions_of_a_dead_sshd_say_is_told_while_they_live(
    root: Path, keys: JobKeys
) -> None:
    """Somebody must hold the listener of its log, and the pipe that they write to stays open."""
    require_program("sshd")

    async def story() -> None:
        async with kept_server(keys, root, Backend.OPENSSH) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            async with asyncssh.connect(
                kept.address,
                kept.plan.port,
                username=kept.plan.account,
                client_keys=[str(keys.private_path)],
                known_hosts=None,
                config=None,
            ) as connection:
                for _ in range(2):
                    await asyncio.sleep(QUICK.shortest_life_s)  # for its life to be a good one
                    kept.sshd.kill()
                    await until("it is told", lambda: not kept.readiness.is_ready)
                    await until("another one is ready", lambda: kept.readiness.is_ready)
                gc.collect()
                with pytest.raises(asyncssh.ChannelOpenError):
                    await connection.open_connection("127.0.0.1", 9)
                await until(
                    "it is told",
                    lambda: any("port 9" in str(event) for event in kept.told(LoginRefused)),
                )
                ended = await connection.run("exit 4")
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

            assert ended.exit_status == 4

    run(story())


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (35, "signal 35")])
def test_a_signal_that_ended_sshd_is_told_also_without_a_name(
    root: Path, keys: JobKeys, number: int, name: str
) -> None:
    """Most real-time signals have none."""
    require_program("sshd")

    async def story() -> None:
        async with kept_server(keys, root, Backend.OPENSSH) as kept:
            keeping = asyncio.create_task(kept.keeper.keep())
            await until("it is ready", lambda: kept.readiness.is_ready)
            kept.sshd.send_signal(number)
            await until("it is told", lambda: bool(kept.told(SshServerEnded)) or keeping.done())
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

            (end,) = kept.told(SshServerEnded)
            assert isinstance(end, SshServerEnded)
            assert end.why == f"sshd ended by {name}"

    run(story())


def test_a_configuration_that_sshd_accepted_is_not_checked_again(root: Path, keys: JobKeys) -> None:
    """A worker would stand still for as long at every restart; another one is checked."""
    sshd, calls = require_program("sshd"), root / "calls"
    recorder = root / "sshd"
    recorder.write_text(f'#!/bin/sh\necho "$1" >>{calls}\nexec {sshd} "$@"\n')
    recorder.chmod(0o755)

    async def story() -> None:
        async with kept_server(keys, root, Backend.OPENSSH, real_login=False) as kept:
            heritage, state = SshdHeritage(), StateDirectory(kept.state)
            for plan in (kept.plan, kept.plan, replace(kept.plan, worker_name="pi-worker-1")):
                server = OpenSshServer(
                    str(recorder), plan, state, kept.children, emit=kept.events, heritage=heritage
                )
                await server.start()
                await server.stop(1.0)

        checks = [call for call in calls.read_text().split() if call == "-t"]
        assert len(checks) == 2

    run(story())


@pytest.mark.parametrize("name", ["authorized_keys", "host_key"])
def test_keys_that_cannot_be_read_are_not_told_as_a_port_that_is_taken(
    root: Path, keys: JobKeys, name: str
) -> None:
    """By the built-in server, which opens files and the port in one step."""

    async def story() -> None:
        async with kept_server(keys, root, Backend.BUILTIN, real_login=False) as kept:
            (kept.state / name).unlink()

            with pytest.raises(SshdConfigError) as caught:
                await kept.keeper.keep()

            path = kept.state / name
            assert caught.value.summary == f'cannot read "{path}": No such file or directory'

    run(story())
