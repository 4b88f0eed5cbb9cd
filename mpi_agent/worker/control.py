"""The worker's side of the one channel: who may speak, and what he is answered.

A unix socket in the state directory, for this account and root. `ssh.worker_protocol` has the
lines, `worker.leases` ends the ranks of launchers that are gone.

The connection is the only credential: whoever can open the socket has logged in with the job's key,
or is in the container already. So it is no secret what can be asked, and a caller is only kept from
harming by mistake: with what is no call, with a line without end, by connecting and saying nothing,
by not reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Collection

from mpi_agent.job.events import EventSink, Noted
from mpi_agent.segments import Segments
from mpi_agent.ssh.worker_protocol import (
    LAUNCHERS_NAME,
    LONGEST_LINE_BYTES,
    RUN_MARK,
    SOCKET_NAME,
    ProtocolError,
    parse_call,
)
from mpi_agent.ssh.worker_words import Cleaned, Draining, Farewell, Line, Verb
from mpi_agent.state import StateDirectory
from mpi_agent.worker.conversation import Conversation
from mpi_agent.worker.held_runs import HeldRuns, RanksOfRuns
from mpi_agent.worker.leftovers import EndRuns
from mpi_agent.worker.local_socket import is_own_peer, listen_at
from mpi_agent.worker.ranks import RanksTold
from mpi_agent.worker.throttling import Throttling

__all__ = ["Control"]

_MOST_CONVERSATIONS = 64
_CALL_LIMIT_S = 10.0
_CLOSE_LIMIT_S = 5.0


class Control:
    """Answers launchers, and ends the ranks of those that are gone.

    Args:
        worker_name: by which launchers know this worker.
        lease_s: how long ranks live without a word of their launcher; None for ever.
        end_runs: see `worker.leftovers`.
        status: JSON text.
        last_words: what a launcher must know before it hears the farewell.
        throttling: what the kernel's account of this container's CPUs says of runs.
        call_limit_s: how long somebody who connected may take to say what he wants.
    """

    def __init__(
        self,
        *,
        state: StateDirectory,
        worker_name: str,
        lease_s: float | None,
        end_runs: EndRuns,
        ranks: RanksOfRuns,
        segments: Segments,
        status: Callable[[], str],
        emit: EventSink,
        last_words: Callable[[], tuple[Line, ...]] = tuple,
        throttling: Throttling | None = None,
        call_limit_s: float = _CALL_LIMIT_S,
    ) -> None:
        self._state = state
        self._status = status
        self._emit = emit
        self._call_limit_s = call_limit_s
        self._runs = HeldRuns(
            state=state,
            worker_name=worker_name,
            lease_s=lease_s,
            end_runs=end_runs,
            ranks=ranks,
            segments=segments,
            emit=emit,
            last_words=last_words,
            throttling=throttling or Throttling(),
        )
        self._numbers = itertools.count(1)
        self._open_conversations = 0
        self._listening: socket.socket | None = None

    def listen(self) -> None:
        """Take the place at which callers ask; they are answered once `serve` runs.

        Raises:
            SettingsError: a worker that is alive has it.
            StateDirectoryError: the state directory takes no socket.
        """
        self._listening = listen_at(self._state, SOCKET_NAME)
        for name in (RUN_MARK, LAUNCHERS_NAME):  # of an earlier worker
            self._state.file(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Give the place up, where `serve` never ran."""
        if self._listening is not None:
            self._listening.close()
            with contextlib.suppress(OSError):
                self._state.file(SOCKET_NAME).unlink()

    async def serve(self) -> None:
        """Answer callers and end the ranks of launchers that are gone, until cancelled.

        Raises:
            SettingsError, StateDirectoryError: see `listen`, which is called if it was not.
        """
        if self._listening is None:
            self.listen()
        try:
            async with asyncio.TaskGroup() as group:
                server = await asyncio.start_unix_server(
                    lambda reader, writer: self._admit(group, reader, writer),
                    sock=self._listening,
                    limit=LONGEST_LINE_BYTES,
                    start_serving=False,
                )
                try:
                    await server.start_serving()
                    await self._runs.serve(group)
                finally:
                    self._runs.is_leaving = True
                    server.close()
        finally:
            for name in (SOCKET_NAME, RUN_MARK):
                with contextlib.suppress(OSError):  # the reason why we end must not be lost
                    self._state.file(name).unlink()

    def tell(self, line: Line, *, run_ids: Collection[str] | None = None) -> None:
        """Tell every launcher that has a run here, at once; one that is away when it is back.

        Args:
            run_ids: of those runs whose launchers are told; None for all.
        """
        self._runs.audience.tell(line, run_ids=run_ids)

    def tell_draining(self, line: Draining, told: RanksTold) -> None:
        """Tell every launcher that the worker is to end, each how many of its own ranks know."""
        self._runs.audience.tell_draining(line, told)

    async def say_farewell(self, *, limit_s: float) -> None:
        """Tell every launcher that watches that it was all, and close; nobody may watch then."""
        self._runs.is_leaving = True
        await self._runs.audience.close(Farewell(), limit_s=limit_s)

    async def job_over(self) -> int:
        """Return the job's exit code; see `HeldRuns.job_over`."""
        return await self._runs.job_over()

    def _admit(
        self, group: asyncio.TaskGroup, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        conversation = Conversation(next(self._numbers), reader, writer)
        group.create_task(self._converse(conversation, is_own=is_own_peer(writer)))

    async def _converse(self, conversation: Conversation, *, is_own: bool) -> None:
        """Hold one conversation, to an end in good order if we are not cancelled."""
        self._open_conversations += 1
        try:
            if not is_own:
                raise ProtocolError("this worker belongs to another account")
            if self._open_conversations > _MOST_CONVERSATIONS:
                raise ProtocolError(f"{_MOST_CONVERSATIONS} others are speaking to this worker")
            await self._answer(conversation)
            await conversation.close(limit_s=_CLOSE_LIMIT_S)
        except ProtocolError as error:
            await conversation.refuse(str(error), limit_s=_CLOSE_LIMIT_S)
        except Exception as error:
            # a question must not end the worker and all ranks on it, whatever is wrong with us
            self._emit(Noted(text=f"cannot answer a caller: {type(error).__name__}: {error}"))
            await conversation.refuse("internal error", limit_s=_CLOSE_LIMIT_S)
        finally:
            self._open_conversations -= 1
            conversation.drop()

    async def _answer(self, conversation: Conversation) -> None:
        try:
            async with asyncio.timeout(self._call_limit_s):
                raw = await conversation.read_line()
        except TimeoutError as error:
            raise ProtocolError(f"no call within {self._call_limit_s:g} s") from error
        if not raw:
            return
        call = parse_call(raw)
        if call.verb is Verb.STATUS:
            conversation.send_raw(self._status().replace("\n", "").encode() + b"\n")
        elif call.verb is Verb.CLEAN:
            ended = await self._runs.clean(call)
            if ended is None:
                raise ProtocolError("what is left here cannot be ended; the worker's log says why")
            conversation.send(Cleaned(ended=ended.gone, killed=ended.killed, left=ended.left))
        else:
            await self._runs.hold(conversation, call)
