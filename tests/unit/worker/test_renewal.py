"""The renewal of a host certificate goes on whatever happens; see test_notary for a real one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mpi_agent.errors import HostKeyError
from mpi_agent.job.events import Noted
from mpi_agent.ssh.keys import JobKey
from mpi_agent.state import StateDirectory
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.notary_words import Answer, Question
from mpi_agent.worker.renewal import renew_certificate
from tests.fakes import EventRecorder

LIFETIME_S = 0.01


class TroubledNotary(Notary):
    """Fails as often as it was told, then signs.

    Args:
        troubles: what is wrong, one for each question.
    """

    def __init__(self, *troubles: Exception) -> None:
        super().__init__({})
        self._troubles = list(troubles)

    async def ask(self, question: Question, *, limit_s: float = 0.0) -> Answer:
        """Answer, or fail."""
        assert question
        assert limit_s >= 0.0
        if self._troubles:
            raise self._troubles.pop(0)
        return Answer(number=1)

    async def end(self) -> None:
        """There is no child."""


def test_whatever_is_wrong_is_told_once_and_tried_again(tmp_path: Path) -> None:
    """Without another try the next certificate would not be there when this one ends."""
    events, reloaded = EventRecorder(), asyncio.Event()
    notary = TroubledNotary(
        RuntimeError("no thread"), RuntimeError("no thread"), HostKeyError("no room", hint="")
    )
    failures = [OSError("no server")]

    def reload() -> None:
        if failures:
            raise failures.pop()
        reloaded.set()

    async def renew() -> None:
        key = JobKey(path=tmp_path / "ours", public="ssh-ed25519 A", origin=tmp_path / "mounted")
        renewing = asyncio.create_task(
            renew_certificate(
                key,
                "pi-worker-0",
                StateDirectory(tmp_path),
                notary=notary,
                reload=reload,
                emit=events,
                lifetime_s=LIFETIME_S,
            )
        )
        await asyncio.wait_for(reloaded.wait(), timeout=20)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)

    asyncio.run(renew())

    notes = [event.text for event in events.events if isinstance(event, Noted)]
    troubles = [note for note in notes if "could not be renewed" in note]
    assert [note.rpartition(" s: ")[2] for note in troubles] == [
        "RuntimeError: no thread",
        "no room",
        "OSError: no server",
    ]
