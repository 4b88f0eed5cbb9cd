"""The sidecar's story: an ssh server and ranks that somebody else started next door, told of.

It asks the ssh server for its banner, which takes a connection that ends without a login. Such a
connection is two lines in that server's log, and since OpenSSH 9.8 a penalty of 1 s for our
address, of which 15 s may add up. So it asks every second until there is a banner, and then looks
whether somebody listens on that port, which nobody notices, and asks seldom.
Source: OpenSSH 9.2p1, log of three such connections, 2026-11-30; sshd_config(5) of OpenSSH 9.8,
PerSourcePenalties.

It is a guest: it starts nothing, reaps nothing and signals nobody, whatever it sees.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from dataclasses import dataclass

from mpi_agent.cgroup import MemoryAccount
from mpi_agent.job.events import EventSink, Noted, SignalReceived
from mpi_agent.job.worker_events import WorkerNotReady, WorkerReady
from mpi_agent.job_processes import find_job_processes, usage_by_rank
from mpi_agent.neighbours import (
    find_ssh_server,
    is_listened_on,
    look_around,
    memory_next_door,
    why_ranks_are_unseen,
)
from mpi_agent.observe.fan_out import FanOut
from mpi_agent.observe.usage import Recently, Usage
from mpi_agent.observe.worker_pages import serving_worker_pages
from mpi_agent.observe.worker_status import Role, WorkerStatus
from mpi_agent.ssh.banner import NotSshError, read_banner
from mpi_agent.worker_settings import SidecarSettings

__all__ = ["Answer", "Sidecar", "SshQuestion"]

_USUAL_PORTS = (2222, 22)
_ANSWER_LIMIT_S = 2.0
_PAUSE_S = 1.0
_READY_PAUSE_S = 5.0
_LISTEN_PAUSE_S = 2.0
_LISTEN_LOOKS = 15
_LOOK_PAUSE_S = 10.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of asking an ssh server for its banner.

    Attributes:
        port: that answered, or was asked last.
        server: name and version, empty when there was no banner.
        why: there was none.
        is_silence: nothing came in time, which a server that is busy may do once.
    """

    port: int
    server: str = ""
    why: str = ""
    is_silence: bool = False


class SshQuestion:
    """Asks an address for an ssh banner, at one port or at the usual ones."""

    def __init__(self, address: str, port: int | None) -> None:
        self._address = address
        self._ports = _USUAL_PORTS if port is None else (port,)

    def ask(self) -> Answer:
        """Return the first banner, else the first port's refusal; blocks for a few seconds."""
        answers = []
        for port in self._ports:
            answer = self._ask(port)
            if answer.server:
                return answer
            answers.append(answer)
        return next((answer for answer in answers if answer.is_silence), answers[0])

    def _ask(self, port: int) -> Answer:
        try:
            banner = read_banner(self._address, port, timeout_s=_ANSWER_LIMIT_S)
        except (OSError, NotSshError) as error:
            return Answer(
                port=port, why=self._words(port, error), is_silence=isinstance(error, TimeoutError)
            )
        return Answer(port=port, server=_server_in(banner))

    def _words(self, port: int, error: OSError | NotSshError) -> str:
        ports = " nor ".join(str(usual) for usual in self._ports)
        if isinstance(error, ConnectionRefusedError):
            return f"nobody listens on {self._address} port {ports}"
        if isinstance(error, TimeoutError):
            return f"no ssh banner came from {self._address} port {port} in {_ANSWER_LIMIT_S:g} s"
        return f"no ssh banner came from {self._address} port {port}: {error}"


class Sidecar:
    """One sidecar, from its start to the end of its container.

    Args:
        log: hears what the sidecar sees; its own pages do too.
    """

    def __init__(self, settings: SidecarSettings, *, log: EventSink) -> None:
        self._settings = settings
        self._question = SshQuestion(settings.ssh_address, settings.ssh_port)
        self._status = WorkerStatus(
            role=Role.SIDECAR,
            name=socket.gethostname(),
            now_s=time.monotonic,
            look=Recently(usage_next_door, now_s=time.monotonic),
        )
        self._emit = FanOut(log, self._status)

    async def run(self) -> int:
        """Tell of the worker until told to stop; return 0 then.

        Raises:
            SettingsError: the pages cannot be served.
        """
        stopped = asyncio.Event()

        def stop(number: signal.Signals) -> None:
            if not stopped.is_set():
                self._emit(SignalReceived(name=number.name, action="the sidecar ends"))
            stopped.set()

        for number in _STOP_SIGNALS:
            # PID 1 gets no signal that it has no handler for
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        async with serving_worker_pages(self._status, self._settings.http_port) as port:
            self._emit(Noted(text=f"readiness, health, status and metrics are on port {port}"))
            tasks = [
                asyncio.create_task(work)
                for work in (self._watch_ssh(), self._watch_notes(), stopped.wait())
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, Exception):
                raise error
        return 0

    async def _watch_ssh(self) -> None:
        """Ask the ssh server again and again, and tell what changed; a single silence is let go."""
        last = Answer(port=0)
        was_silent = False
        while True:
            answer = await asyncio.to_thread(self._question.ask)
            is_excused = answer.is_silence and bool(last.server) and not was_silent
            was_silent = answer.is_silence
            if not is_excused and answer != last:
                self._emit(_event_of(answer))
                last = answer
            await _until_worth_asking(answer)

    async def _watch_notes(self) -> None:
        """Say once what keeps ranks from being seen."""
        told: set[str] = set()
        while True:
            usage = await asyncio.to_thread(self._status.usage)
            for note in usage.notes:
                if note not in told:
                    told.add(note)
                    self._emit(Noted(text=note))
            await asyncio.sleep(_LOOK_PAUSE_S)


def usage_next_door() -> Usage:
    """Return what the ranks use that can be seen, and why none may be."""
    ranks = usage_by_rank(find_job_processes().processes)
    neighbours = look_around()
    note = why_ranks_are_unseen(
        neighbours, own_pid=os.getpid(), own_uid=os.getuid(), own_gid=os.getgid()
    )
    pid = ranks[0].pid if ranks else find_ssh_server(neighbours)
    return Usage(
        ranks=ranks,
        memory=MemoryAccount() if pid is None else memory_next_door(pid),
        notes=() if note is None else (note,),
    )


async def _until_worth_asking(answer: Answer) -> None:
    """Return a moment after a refusal; after a banner, when nobody listens any more, or later.

    Where the listener cannot be seen, because it is in another network, only asking is left.
    """
    if not answer.server:
        await asyncio.sleep(_PAUSE_S)
    elif not await asyncio.to_thread(is_listened_on, answer.port):
        await asyncio.sleep(_READY_PAUSE_S)
    else:
        for _ in range(_LISTEN_LOOKS):
            await asyncio.sleep(_LISTEN_PAUSE_S)
            if not await asyncio.to_thread(is_listened_on, answer.port):
                return


def _event_of(answer: Answer) -> WorkerReady | WorkerNotReady:
    if answer.server:
        return WorkerReady(server=answer.server, port=answer.port, user="")
    return WorkerNotReady(why=answer.why)


def _server_in(banner: str) -> str:
    """Return `OpenSSH_9.2p1` for `SSH-2.0-OpenSSH_9.2p1 Debian-2`.

    Source: RFC 4253, section 4.2: SSH-protoversion-softwareversion SP comments.
    """
    return banner.split("-", 2)[-1].partition(" ")[0] or "unnamed"
