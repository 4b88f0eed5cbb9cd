"""Who is told what happens on this worker: the launchers of its open runs, each of its own run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from mpi_agent.ssh.worker_words import Draining, Line
from mpi_agent.worker.conversation import Conversation
from mpi_agent.worker.ranks import RanksTold
from mpi_agent.worker.untold import Untold

__all__ = ["Audience"]


class Audience:
    """The conversations that hold runs, and what their launchers may not have heard."""

    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        self._untold: dict[str, Untold] = {}
        self._draining: tuple[Draining, RanksTold] | None = None

    def join(self, run_id: str, conversation: Conversation, *first: Line) -> None:
        """Let a conversation hold a run in place of an older one, and tell it what it must know."""
        if (older := self._conversations.get(run_id)) is not None:
            older.drop()
        self._conversations[run_id] = conversation
        for line in (*first, *self._drain_lines(run_id)):
            conversation.send(line)
        for line in self._untold.setdefault(run_id, Untold()).again():
            conversation.send(line)

    def leave(self, run_id: str, conversation: Conversation) -> None:
        """Note that a conversation has ended."""
        if self._conversations.get(run_id) is conversation:
            del self._conversations[run_id]

    def let_go(self, run_id: str) -> None:
        """End the conversation that holds a run."""
        if (conversation := self._conversations.pop(run_id, None)) is not None:
            conversation.drop()

    def keep(self, run_ids: Collection[str]) -> None:
        """Forget what was told of other runs."""
        kept = {*run_ids, *self._conversations}
        self._untold = {run_id: one for run_id, one in self._untold.items() if run_id in kept}

    def heard(self, run_id: str) -> None:
        """Note a word of the launcher that holds a run."""
        if (untold := self._untold.get(run_id)) is not None:
            untold.heard()

    def tell(self, line: Line, *, run_ids: Collection[str] | None = None) -> None:
        """Tell the launchers of runs, or of all, at once; one that is away when it is back."""
        for run_id, untold in self._untold.items():
            if run_ids is None or run_id in run_ids:
                untold.told(line)
                if (conversation := self._conversations.get(run_id)) is not None:
                    conversation.send(line)

    def tell_draining(self, line: Draining, told: RanksTold) -> None:
        """Tell every launcher that the worker is to end, and those still to come.

        Args:
            line: in which the number of ranks is that of all runs.
            told: the ranks that were told.
        """
        self._draining = (line, told)
        for run_id, conversation in self._conversations.items():
            for own_line in self._drain_lines(run_id):
                conversation.send(own_line)

    async def close(self, line: Line, *, limit_s: float) -> None:
        """Tell every launcher that listens its last line."""
        listening = tuple(self._conversations.values())
        for conversation in listening:
            conversation.send(line)
        await asyncio.gather(*(one.close(limit_s=limit_s) for one in listening))

    def _drain_lines(self, run_id: str) -> tuple[Draining, ...]:
        if self._draining is None:
            return ()
        line, told = self._draining
        own = Draining(signal_name=line.signal_name, grace_s=line.grace_s, ranks=told.of(run_id))
        return (own,)
