"""A terminal of ours for the program, where we have one: as large, and otherwise out of the way.

The outer terminal stays as it is: it echoes, edits lines, goes back at the end of one, and makes
Ctrl-C a signal to us, which we pass on once. So nothing has to be restored, however we end, and the
inner one does none of it a second time. Its lines end where the outer's do: an end of file that was
typed is typed again. A program that wants single keys, or no echo, does not get them.

The inner terminal is the controlling one of the program's session: launchers read no standard input
from a terminal in whose foreground they are not.

Source: PRRTE 3.0, iof/hnp: a terminal is read only when `tcgetpgrp` names our own group.
termios(3), pty(7), ioctl_tty(2), Linux man-pages 6.03.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import termios
import threading
from typing import Any

__all__ = ["Keyboard", "Terminal", "is_same", "is_terminal", "was_given"]

_DISABLED = b"\0"
_KEPT_CHARACTERS = frozenset({termios.VEOF, termios.VMIN, termios.VTIME})
_INPUT_FLAGS_DONE = (
    termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP | termios.BRKINT
) | (termios.IXON | termios.IXOFF | termios.IXANY | termios.PARMRK | termios.INPCK)
_LONGEST_LINE_BYTES = 4096
_BACKGROUND_PAUSE_MS = 500
_END_LIMIT_S = 0.5


class Terminal:
    """A pseudo-terminal; `close` hangs it up.

    Args:
        outer: our own terminal.

    Raises:
        OSError, termios.error: there is none to be had.
    """

    def __init__(self, outer: int) -> None:
        self._outer = outer
        self._follows = False
        attributes = termios.tcgetattr(outer)
        self.master, self._inner = os.openpty()
        os.set_blocking(self.master, False)
        self.end_of_file = self._set_up(attributes)
        self._take_size()

    @property
    def inner(self) -> int:
        """The program's side."""
        return self._inner

    def follow_size(self) -> None:
        """Have the inner size follow the outer one."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._take_size)
        self._follows = True

    def leave(self) -> None:
        """Let go of the program's side, so that its end can be seen."""
        if self._inner >= 0:
            os.close(self._inner)
            self._inner = -1

    def close(self) -> None:
        """Hang up; may be called again."""
        self.leave()
        if self._follows:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH)
            self._follows = False
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def _set_up(self, attributes: list[Any]) -> bytes:
        """Leave to the outer terminal what it does; return what ends the input, if anything."""
        attributes[0] &= ~_INPUT_FLAGS_DONE
        attributes[1] &= ~termios.OPOST
        attributes[3] &= termios.ICANON
        characters = attributes[6]
        for index in set(range(len(characters))) - _KEPT_CHARACTERS:
            characters[index] = _DISABLED
        termios.tcsetattr(self._inner, termios.TCSANOW, attributes)
        typed: bytes = characters[termios.VEOF]
        return typed if attributes[3] else b""

    def _take_size(self) -> None:
        """Take over the outer size; the kernel tells the program, if it is another one."""
        with contextlib.suppress(termios.error):
            termios.tcsetwinsize(self.master, termios.tcgetwinsize(self._outer))


class Keyboard:
    """Copies what is typed to the program's terminal, by a thread of its own.

    Nothing is read while we are in the background, where reading would stop us.
    """

    def __init__(self, typed: int, terminal: Terminal) -> None:
        self._typed = typed
        self._master = os.dup(terminal.master)
        self._end_of_file = terminal.end_of_file
        self._stop, self._to_stop = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="keyboard", daemon=True)

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def close(self) -> None:
        """End it; it waits for nobody but us, unless somebody else reads what is typed."""
        os.close(self._to_stop)
        if self._thread.ident is None:
            self._close_own()
        else:
            self._thread.join(_END_LIMIT_S)

    def _close_own(self) -> None:
        os.close(self._stop)
        os.close(self._master)

    def _run(self) -> None:
        try:
            self._copy()
        finally:
            self._close_own()

    def _copy(self) -> None:
        with contextlib.suppress(OSError):  # either terminal is gone
            while self._wait(self._typed, select.POLLIN):
                if not self._is_in_foreground:
                    self._pause()
                elif (line := os.read(self._typed, _LONGEST_LINE_BYTES)) or self._end_of_file:
                    self._write(line if line.endswith(b"\n") else line + self._end_of_file)
                else:
                    return

    def _wait(self, number: int, event: int) -> bool:
        """Return True once the event is there; False for our end, or the terminal's."""
        poll = select.poll()
        poll.register(self._stop, 0)
        poll.register(number, event)
        ready = dict(poll.poll())
        return self._stop not in ready and ready[number] == event

    def _pause(self) -> None:
        poll = select.poll()
        poll.register(self._stop, 0)
        poll.poll(_BACKGROUND_PAUSE_MS)

    @property
    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._typed) == os.getpgrp()
        except OSError:  # not our controlling terminal: nobody stops us for reading it
            return True

    def _write(self, content: bytes) -> None:
        while content and self._wait(self._master, select.POLLOUT):
            with contextlib.suppress(BlockingIOError):
                content = content[os.write(self._master, content) :]


def was_given(number: int) -> bool:
    """Return whether a standard stream is one that we were started with.

    A file of our own has its number where that was free, such as the event loop's; it is closed at
    exec, which a stream that we were given cannot be.
    """
    try:
        return number > 2 or not fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    except OSError:
        return False


def is_terminal(number: int) -> bool:
    """Return whether a stream is a terminal; a negative number is none."""
    return number >= 0 and os.isatty(number)


def is_same(one: int, other: int) -> bool:
    """Return whether two streams are one file; a stream that is closed is no other."""
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:
        return False
