"""The launcher's own name: asked for until it is there."""

from __future__ import annotations

import asyncio

from mpi_agent.job.readiness import Obstacle
from mpi_agent.own_name import OwnName
from mpi_agent.wait.dns import Lookup

NO = Lookup(addresses=(), obstacle=Obstacle.NAME_UNKNOWN, detail='"pi-launcher.pi" is not there')
YES = Lookup(addresses=("10.0.0.7",))


class ScriptedNames:
    """Answers from a script; where it ends, the answer never comes."""

    def __init__(self, *script: Lookup) -> None:
        self._script = list(script)
        self.silent = asyncio.Event()

    async def look_up(self, name: str) -> Lookup:
        """Return the next answer."""
        assert name == "pi-launcher.pi"
        if not self._script:
            self.silent.set()
            await asyncio.Event().wait()
        return self._script.pop(0)


def refusal_after(*script: Lookup) -> str:
    """Return why the name is not there, once the script has come to its end."""

    async def ask() -> str:
        names = ScriptedNames(*script)
        own = OwnName("pi-launcher.pi", names, pause_s=0.0)
        asking = asyncio.create_task(own.until_known())
        silent = asyncio.create_task(names.silent.wait())
        await asyncio.wait({asking, silent}, return_when=asyncio.FIRST_COMPLETED)
        for task in (asking, silent):
            task.cancel()
        await asyncio.gather(asking, silent, return_exceptions=True)
        return own.refusal

    return asyncio.run(ask())


def test_a_name_that_comes_late_leaves_no_refusal() -> None:
    """It is asked again after each "no"."""
    assert refusal_after(NO, NO, YES) == ""


def test_a_name_that_is_missing_leaves_the_last_refusal() -> None:
    """For the sentence in which it is told."""
    assert refusal_after(NO) == NO.detail


def test_a_name_that_nobody_has_answered_for_is_not_called_missing() -> None:
    """The hosts may be ready before the first answer, which may well be "yes"."""
    assert refusal_after() == ""
