"""Is the job's key let in, on the terms on which mpirun's ssh dials, and what has the host.

Here, too, is how a host is asked to run one command for us.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass

import asyncssh

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.ssh.remote import dial_options
from mpi_agent.ssh.trust import SshTerms, host_key_alias
from mpi_agent.wait.equipment import (
    ANSWER_ENDS,
    CLEANING,
    Equipment,
    EquipmentAnswer,
    LauncherAddress,
    judge_answer,
    question_line,
)
from mpi_agent.wait.tcp import PortAnswer

__all__ = ["BackConnection", "Errand", "LoginAnswer", "LoginProbe", "run_errand"]

LOGIN_LIMIT_S = 15.0
ANSWER_LIMIT_S = 20.0
CLEANING_LIMIT_S = 60.0
"""further time for a host that ends what an earlier launch has left there"""
ENOUGH_WITNESSES = 8
_LONGEST_ANSWER = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class BackConnection:
    """How the daemons will connect to the launcher.

    Attributes:
        port: one on which the launcher listens while it waits.
    """

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAnswer:
    """How far a login got; obstacle and detail are set exactly when it did not pass.

    Attributes:
        facts: what the host has; None below EQUIPPED.
    """

    stage: Stage
    obstacle: Obstacle | None = None
    detail: str = ""
    steps: tuple[tuple[Stage, float], ...] = ()
    notes: tuple[str, ...] = ()
    facts: HostFacts | None = None


class LoginProbe:
    """Logs in with the job's key, user and known hosts, asks about the equipment, logs out.

    Args:
        equipment: what a host must have, None to ask for a login alone.
        back: None where nothing needs to connect to the launcher.
        answer_limit_s: how long the question about the equipment may stay without an answer.
    """

    def __init__(
        self,
        terms: SshTerms,
        *,
        equipment: Equipment | None = None,
        back: BackConnection | None = None,
        answer_limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        self._equipment = equipment
        self._back = back
        self._answer_limit_s = answer_limit_s
        self._key = asyncssh.read_private_key(terms.key_path)
        self._user = terms.user
        self._witnesses: set[str] = set()
        self._cut_off: set[str] = set()
        self._options = dial_options(terms, self._key)

    async def log_in(self, host: str, answer: PortAnswer) -> LoginAnswer:
        """Return how far the login got over the connection of a port that answered."""
        loop = asyncio.get_running_loop()
        started_at_s = loop.time()
        where = f"{answer.address} port {answer.port}"
        try:
            async with asyncio.timeout(LOGIN_LIMIT_S):
                connection = await asyncssh.connect(
                    answer.address,
                    answer.port,
                    sock=answer.connection,
                    options=self._options,
                    host_key_alias=host_key_alias(host),
                )
        except (asyncssh.Error, OSError, TimeoutError) as error:
            return _refusal(self._describe(where, error))
        async with connection:
            steps = [(Stage.AUTHENTICATED, loop.time() - started_at_s)]
            if self._equipment is None:
                return LoginAnswer(stage=Stage.AUTHENTICATED, steps=tuple(steps))
            back = self._launcher_address(host, connection)
            asked_at_s = loop.time()
            found = await _ask(connection, self._equipment, back, self._answer_limit_s)
            steps.append((Stage.EQUIPPED, loop.time() - asked_at_s))
        if found.connects_back is not None:
            (self._witnesses if found.connects_back else self._cut_off).add(host)
        return LoginAnswer(
            stage=Stage.AUTHENTICATED if found.obstacle else Stage.EQUIPPED,
            obstacle=found.obstacle,
            detail=found.detail,
            notes=found.notes,
            facts=found.facts,
            steps=tuple(steps),
        )

    def _launcher_address(
        self, host: str, connection: asyncssh.SSHClientConnection
    ) -> LauncherAddress | None:
        """Return where the host is to connect to: at the address that dialled it.

        What keeps workers from connecting back is nearly always a policy on the launcher's pod, so
        enough witnesses spare the rest the question; who failed it once is asked again.
        """
        is_known = len(self._witnesses) >= ENOUGH_WITNESSES and host not in self._cut_off
        if self._back is None or is_known:
            return None
        own_address: str = connection.get_extra_info("sockname")[0]
        return LauncherAddress(address=own_address, port=self._back.port)

    def _describe(self, where: str, error: Exception) -> tuple[Obstacle, str]:
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return (
                Obstacle.HOST_KEY_UNKNOWN,
                f"{where} shows a host key that this job does not know",
            )
        if isinstance(error, asyncssh.PermissionDenied):
            key = self._key.get_fingerprint()
            return (
                Obstacle.KEY_REFUSED,
                f'{where} refuses the job\'s key {key} for user "{self._user}"',
            )
        said = error.strerror if isinstance(error, OSError) else str(error)
        why = said or f"no end within {LOGIN_LIMIT_S:g} s"
        return Obstacle.LOGIN_BROKEN, f"the login on {where} broke off: {why}"


def _refusal(described: tuple[Obstacle, str]) -> LoginAnswer:
    obstacle, detail = described
    return LoginAnswer(stage=Stage.ANSWERING, obstacle=obstacle, detail=detail)


async def _ask(
    connection: asyncssh.SSHClientConnection,
    equipment: Equipment,
    back: LauncherAddress | None,
    limit_s: float,
) -> EquipmentAnswer:
    """Run the question in one session; an answer that never comes is an answer too."""
    said, ended = "", True
    try:
        async with asyncio.timeout(limit_s) as limit:
            process = await connection.create_process(
                question_line(equipment, back),
                stdin=asyncssh.DEVNULL,
                stderr=asyncssh.DEVNULL,
                errors="replace",
            )
            try:
                while ANSWER_ENDS not in said:
                    piece = await process.stdout.read(_LONGEST_ANSWER)
                    if not piece:
                        break
                    if CLEANING in (more := said + str(piece)) and CLEANING not in said:
                        limit.reschedule(asyncio.get_running_loop().time() + CLEANING_LIMIT_S)
                    said = more[-_LONGEST_ANSWER:]
            finally:
                # sshd lets a command live on that does not end by itself, such as a start-up file
                # that sleeps; each probe would leave one more
                with contextlib.suppress(OSError):
                    process.kill()
    except TimeoutError:
        ended = False
    except (asyncssh.Error, OSError) as error:
        return EquipmentAnswer(
            obstacle=Obstacle.LOGIN_BROKEN,
            detail=f"the login broke off when it was asked to run a command: {error}",
        )
    return judge_answer(equipment, back, said, ended=ended, limit_s=limit_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """How a command ended that a host ran for us.

    Attributes:
        code: None when the host could not be asked, or was not done in time.
        said: the last line on its standard error, or why there is no code.
    """

    code: int | None
    said: str


async def run_errand(
    terms: SshTerms, host: str, address: str, port: int, command: str, *, limit_s: float
) -> Errand:
    """Run a command on a host, over a login of its own; return how it ended.

    The command should end by itself: where the account is root, OpenSSH's sshd takes no signals for
    it (9.2, session.c, session_signal_req), so one that is given up may live on.
    """
    options = dial_options(terms, asyncssh.read_private_key(terms.key_path))
    alias = host_key_alias(host)
    try:
        async with (
            asyncio.timeout(limit_s),
            asyncssh.connect(address, port, options=options, host_key_alias=alias) as connection,
        ):
            return await _run(connection, command)
    except TimeoutError:
        return Errand(code=None, said=f"no end within {limit_s:g} s")
    except OSError as error:
        return Errand(code=None, said=os.strerror(error.errno) if error.errno else str(error))
    except asyncssh.Error as error:
        return Errand(code=None, said=str(error) or type(error).__name__)


async def _run(connection: asyncssh.SSHClientConnection, command: str) -> Errand:
    process = await connection.create_process(
        command, stdin=asyncssh.DEVNULL, stdout=asyncssh.DEVNULL, errors="replace"
    )
    try:
        ended = await process.wait()
    finally:
        # closing the process would wait for a command that may not end
        with contextlib.suppress(OSError):
            process.kill()
    lines = str(ended.stderr or "").strip().splitlines()
    return Errand(code=ended.returncode, said=lines[-1] if lines else "")
