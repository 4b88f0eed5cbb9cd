"""TERM and INT as values: the first ends the worker, a second one hurries it."""

from __future__ import annotations

import asyncio
import signal

__all__ = ["StopSignals"]

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Collects stop signals; `with` installs and removes the handlers."""

    def __init__(self) -> None:
        self._received: asyncio.Queue[signal.Signals] = asyncio.Queue()

    def __enter__(self) -> StopSignals:
        loop = asyncio.get_running_loop()
        for number in _NUMBERS:
            loop.add_signal_handler(number, self._received.put_nowait, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in _NUMBERS:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait(self) -> signal.Signals:
        """Return the next one, once it came."""
        return await self._received.get()
