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
from mpi_agent.job.worker_events import RunOver
from mpi_agent.ssh.worker_protocol import (
    LONGEST_LINE_BYTES,
    RUN_MARK,
    SOCKET_NAME,
    ProtocolError,
    parse_call,
    parse_line,
)
from mpi_agent.ssh.worker_words import (
    Alive,
    Call,
    Cleaned,
    Draining,
    Farewell,
    LauncherId,
    Line,
    Over,
    Verb,
    Watching,
)
from mpi_agent.state import StateDirectory
from mpi_agent.worker.conversation import Conversation
from mpi_agent.worker.leases import Leases
from mpi_agent.worker.leftovers import EndRuns
from mpi_agent.worker.local_socket import is_own_peer, listen_at
from mpi_agent.worker.runs import Run

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
        call_limit_s: how long somebody who connected may take to say what he wants.
    """

    def __init__(
        self,
        *,
        state: StateDirectory,
        worker_name: str,
        lease_s: float | None,
        end_runs: EndRuns,
        status: Callable[[], str],
        emit: EventSink,
        last_words: Callable[[], tuple[Line, ...]] = tuple,
        call_limit_s: float = _CALL_LIMIT_S,
    ) -> None:
        self._state = state
        self._worker_name = worker_name
        self._lease_s = lease_s
        self._status = status
        self._emit = emit
        self._last_words = last_words
        self._call_limit_s = call_limit_s
        self._leases = Leases(
            state=state,
            lease_s=lease_s,
            end_runs=end_runs,
            let_go=self._let_go,
            changed=self._look_whether_over,
            emit=emit,
        )
        self._watchers: dict[str, Conversation] = {}
        self._numbers = itertools.count(1)
        self._open_conversations = 0
        self._listening: socket.socket | None = None
        self._draining: Draining | None = None
        self._is_leaving = False
        self._exit_code: int | None = None
        self._partings = 0
        self._over = asyncio.Event()

    def listen(self) -> None:
        """Take the place at which callers ask; they are answered once `serve` runs.

        Raises:
            SettingsError: a worker that is alive has it.
            StateDirectoryError: the state directory takes no socket.
        """
        self._listening = listen_at(self._state, SOCKET_NAME)
        self._state.file(RUN_MARK).unlink(missing_ok=True)

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
                    await self._leases.serve(group)
                finally:
                    self._is_leaving = True
                    server.close()
        finally:
            for name in (SOCKET_NAME, RUN_MARK):
                with contextlib.suppress(OSError):  # the reason why we end must not be lost
                    self._state.file(name).unlink()

    def tell(self, line: Line, *, run_ids: Collection[str] | None = None) -> None:
        """Tell every launcher that watches, at once; that we drain, also those still to come.

        Args:
            run_ids: of those runs whose launchers are told; None for all.
        """
        if isinstance(line, Draining):
            self._draining = line
        for run_id, conversation in self._watchers.items():
            if run_ids is None or run_id in run_ids:
                conversation.send(line)

    async def say_farewell(self, *, limit_s: float) -> None:
        """Tell every launcher that watches that it was all, and close; nobody may watch then."""
        self._is_leaving = True
        self.tell(Farewell())
        watchers = tuple(self._watchers.values())
        await asyncio.gather(*(one.close(limit_s=limit_s) for one in watchers))

    async def job_over(self) -> int:
        """Return the job's exit code, once a launcher told it and nothing of any run goes on.

        Every launcher has had its farewell then; the code is that of the last one. What will not go
        is not waited for: whoever ends this container may be stronger than we are.
        """
        await self._over.wait()
        assert self._exit_code is not None
        return self._exit_code

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
            ended = await self._leases.clean(call.launcher)
            if ended is None:
                raise ProtocolError("what is left here cannot be ended; the worker's log says why")
            conversation.send(Cleaned(ended=ended.gone, killed=ended.killed, left=ended.left))
        else:
            await self._watch(conversation, call)

    async def _watch(self, conversation: Conversation, call: Call) -> None:
        """Let a launcher hold its run until one of us says that it is over."""
        assert call.launcher is not None
        if self._is_leaving:
            raise ProtocolError("this worker is ending")
        self._begin(conversation, call.run_id, call.launcher)
        try:
            while raw := await conversation.read_line():
                self._leases.heard(call.run_id, watcher=conversation.number)
                line = parse_line(raw)
                if isinstance(line, Alive):
                    conversation.send(Alive())
                elif isinstance(line, Over):
                    await self._take_over(conversation, call.run_id, line.exit_code)
                    return
        finally:
            self._lost(conversation, call.run_id)

    def _begin(self, conversation: Conversation, run_id: str, launcher: LauncherId) -> None:
        self._leases.begin(run_id, launcher, watcher=conversation.number)
        if (older := self._watchers.get(run_id)) is not None:
            older.drop()
        self._watchers[run_id] = conversation
        conversation.send(Watching(worker=self._worker_name, lease_s=self._lease_s))
        if self._draining is not None:
            conversation.send(self._draining)

    def _lost(self, conversation: Conversation, run_id: str) -> None:
        if self._watchers.get(run_id) is conversation:
            del self._watchers[run_id]
        if not self._is_leaving:
            self._leases.lost(run_id, watcher=conversation.number)

    def _let_go(self, run: Run) -> None:
        if (conversation := self._watchers.pop(run.run_id, None)) is not None:
            conversation.drop()

    async def _take_over(self, conversation: Conversation, run_id: str, exit_code: int) -> None:
        """End what a job left behind, say the last words about it, and remember its code."""
        self._emit(RunOver(run_id=run_id, exit_code=exit_code))
        self._exit_code = exit_code
        self._partings += 1
        try:
            await self._leases.over(run_id)
            for line in self._last_words():
                conversation.send(line)
            conversation.send(Farewell())
            await conversation.close(limit_s=_CLOSE_LIMIT_S)
        finally:
            self._partings -= 1
            self._look_whether_over()

    def _look_whether_over(self) -> None:
        is_quiet = not self._partings and not self._leases.are_busy
        if self._exit_code is not None and is_quiet:
            self._over.set()
