"""Carries the lines of one conversation between whoever logged in and the worker's agent.

    python -I -S worker_call.py SOCKET VERB [CALL]

CALL is the first line of the conversation, as `ssh.worker_protocol` renders it. Without it `status`
asks for the status, and the other verbs read it from stdin.

- `status`, `clean`: one line goes there, the answer comes back, until the worker closes.
- `watch`: lines go both ways at once. The end of stdin means that the launcher is gone, so it is
  the end of the conversation.

The exit code is 0 when the worker has answered and closed, or our side has ended a watch; 1 with a
sentence on stderr when there is no worker or it says nothing; and 1 when it refuses, in which case
the refusal is its answer.

A launcher of a thousand workers keeps one of these running on each, in the container's memory, and
the wait for workers starts one in each login. So it knows nothing but the standard library, and not
much of that: mpi_agent itself would take five times as long and as much.
Source: measured with CPython 3.11.7, 2026-11-30: 20 ms and 10 MB; see
tests/integration/test_worker_call.py.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

_LONGEST_SOCKET_PATH = 107
"""Source: unix(7), Linux man-pages 6.03: `sun_path` has 108 bytes, with the NUL behind the path."""

_PIECE_BYTES = 65536
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_STDIN, _STDOUT = 0, 1
_REFUSAL = b'{"kind":"refused"'
_USAGE = "usage: worker-call status|clean|watch [CALL]"


class NoWorkerError(Exception):
    """There is nobody at the socket, or he went away without a word."""


def connect(path: str) -> socket.socket:
    """Return a connection to the agent of this worker.

    Raises:
        NoWorkerError: no agent listens there, or it is another account's.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = None
    try:
        if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
            directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
            path = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise NoWorkerError(error.strerror or str(error)) from error
    finally:
        if directory is not None:
            os.close(directory)
    return connection


def ask(connection: socket.socket, call: bytes) -> int:
    """Send the one line of a conversation and print the answer; return the exit code.

    Raises:
        NoWorkerError: there was no answer.
    """
    _send(connection, call, is_last=True)
    first = b""
    while piece := _receive(connection):
        first = first or piece
        _write(piece)
    return _code_for(first)


def carry(connection: socket.socket, call: bytes) -> int:
    """Carry what either side says at once; return the exit code.

    It is over when the worker closes, at the end of stdin, and when nobody reads stdout any more.

    Raises:
        NoWorkerError: the worker closed without a word.
    """
    _send(connection, call)
    first = b""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(_STDIN, select.POLLIN)
    poll.register(_STDOUT, 0)
    while True:
        ready = dict(poll.poll())
        if connection.fileno() in ready:
            piece = _receive(connection)
            if not piece:
                return _code_for(first)
            first = first or piece
            _write(piece)
        if ready.get(_STDOUT, 0) & _GONE:
            return 0
        if _STDIN in ready:
            piece = _read()
            if not piece:
                return 0
            _send(connection, piece)


def converse(path: str, verb: str, call: bytes) -> int:
    """Hold one conversation with the agent that listens at a path; return the exit code."""
    try:
        with connect(path) as connection:
            if verb == "watch":
                return carry(connection, call)
            return ask(connection, call or _read_line())
    except (NoWorkerError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        _complain(f'worker-call: cannot ask the worker\'s agent at "{path}": {why}')
        return 1


def main(arguments: list[str]) -> int:
    """Hold the conversation that the arguments name; return the exit code."""
    if not 2 <= len(arguments) <= 3 or arguments[1] not in ("status", "clean", "watch"):
        _complain(_USAGE)
        return 2
    path, verb = arguments[:2]
    call = os.fsencode(arguments[2].strip()) + b"\n" if len(arguments) == 3 else b""
    if verb == "status" and not call:
        call = b'{"verb":"status"}\n'
    return converse(path, verb, call)


def _code_for(first: bytes) -> int:
    """Return the exit code for what the worker said first."""
    if not first:
        raise NoWorkerError("it closed the connection without an answer")
    return 1 if first.startswith(_REFUSAL) else 0


def _send(connection: socket.socket, piece: bytes, *, is_last: bool = False) -> None:
    """Send a piece; a worker that has closed already may still have said why."""
    try:
        connection.sendall(piece, socket.MSG_NOSIGNAL)
        if is_last:
            connection.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError):
        return


def _receive(connection: socket.socket) -> bytes:
    """Return the next piece from the worker, empty once it has closed, also upon unread words."""
    try:
        return connection.recv(_PIECE_BYTES)
    except ConnectionResetError:
        return b""


def _read() -> bytes:
    """Return the next piece of stdin, empty at its end; sshd may hand over one that never waits."""
    while True:
        try:
            return os.read(_STDIN, _PIECE_BYTES)
        except BlockingIOError:
            select.select([_STDIN], [], [])
        except OSError:
            return b""


def _read_line() -> bytes:
    """Return the first line of stdin."""
    line = b""
    while b"\n" not in line and len(line) <= _PIECE_BYTES and (piece := _read()):
        line += piece
    return line


def _write(piece: bytes) -> None:
    while piece:
        try:
            piece = piece[os.write(_STDOUT, piece) :]
        except BlockingIOError:
            select.select([], [_STDOUT], [])


def _complain(sentence: str) -> None:
    os.write(2, os.fsencode(sentence) + b"\n")


def _open_missing_streams() -> None:
    """Give the numbers of streams that the caller has closed to nothing, not to the socket."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


if __name__ == "__main__":
    # as a program in C would: no traceback for Ctrl-C, and the end when nobody reads
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _open_missing_streams()
    # nothing is left to be tidied up, and an exit in C is some milliseconds sooner
    os._exit(main(sys.argv[1:]))
