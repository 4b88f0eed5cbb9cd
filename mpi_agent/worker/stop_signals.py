"""TERM and INT as values: the first ends the worker, a second one hurries it.

They are taken from the moment on at which this is made, before there is an event loop: to PID 1
the kernel does not deliver a signal for which there is no handler. Signals that people send to an
sshd, or by mistake, do nothing: they have handlers all the same, because children would inherit
that a signal is ignored, and ranks must hear theirs.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

__all__ = ["StopSignals"]

_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_HARMLESS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class StopSignals:
    """Collects stop signals; `with`, inside an event loop, lets them be waited for."""

    def __init__(self) -> None:
        self._early: list[int] = []
        for number in _NUMBERS:
            signal.signal(number, lambda received, _: self._early.append(received))
        for number in _HARMLESS:
            signal.signal(number, lambda *_: None)

    def __enter__(self) -> StopSignals:
        import asyncio

        self._received: asyncio.Queue[signal.Signals] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        for number in _NUMBERS:
            loop.add_signal_handler(number, self._received.put_nowait, number)
        for received in self._early:
            self._received.put_nowait(signal.Signals(received))
        return self

    def __exit__(self, *_: object) -> None:
        import asyncio

        for number in _NUMBERS:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait(self) -> signal.Signals:
        """Return the next one, once it came."""
        return await self._received.get()
