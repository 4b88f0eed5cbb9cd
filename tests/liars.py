"""TCP servers that lie: they say something else than SSH, too little, too late, or nothing.

Each lives on a loopback address of its own, closes what it accepted once its behaviour returns, and
is gone with its threads when the block ends.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from mpi_agent.ssh.trust import SshTarget
from tests.workers import free_address

__all__ = [
    "Behaviour",
    "full_port",
    "greets",
    "hangs_up",
    "lying",
    "nobody",
    "says",
    "silent",
    "slow_road",
]

Behaviour = Callable[[socket.socket], None]
"""What a liar does with one connection; it is closed when this returns."""

_FULL_AFTER_S = 0.3
_MOST_FILLERS = 20


@contextlib.contextmanager
def lying(behaviour: Behaviour) -> Iterator[SshTarget]:
    """Provide a server that behaves so towards everybody."""
    with socket.create_server(free_address()) as server:
        liar = _Liar(server, behaviour)
        address, port = server.getsockname()
        try:
            yield SshTarget(name="liar", address=address, port=port)
        finally:
            liar.end()


class _Liar:
    """Serves every connection in a thread of its own."""

    def __init__(self, server: socket.socket, behaviour: Behaviour) -> None:
        self._server = server
        self._behaviour = behaviour
        self._open: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def end(self) -> None:
        """Close everything; return when no thread is left."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        with self._lock:
            left = dict(self._open)
            for connection in left:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                thread = threading.Thread(target=self._serve, args=(connection,))
                with self._lock:
                    self._open[connection] = thread
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._behaviour(connection)
        with self._lock:
            del self._open[connection]
            connection.close()


def says(words: bytes) -> Behaviour:
    """Return what says this and hangs up."""
    return lambda connection: connection.sendall(words)


def hangs_up(_: socket.socket) -> None:
    """Close at once."""


def silent(connection: socket.socket) -> None:
    """Say nothing until the client goes."""
    while connection.recv(1024):
        pass


def greets(connection: socket.socket) -> None:
    """Give an SSH banner, and then say nothing until the client goes."""
    connection.sendall(b"SSH-2.0-liar\r\n")
    silent(connection)


def slow_road(target: SshTarget, delay_s: float) -> Behaviour:
    """Return what connects through to a real server, whose first word comes late."""

    def behave(connection: socket.socket) -> None:
        with socket.create_connection((str(target.address), target.port)) as server:
            back = threading.Thread(target=_carry, args=(server, connection, delay_s))
            back.start()
            _carry(connection, server, 0.0)
            back.join()

    return behave


def _carry(source: socket.socket, sink: socket.socket, delay_s: float) -> None:
    """Pass bytes on until one side goes; the first of them late."""
    with contextlib.suppress(OSError):
        first = source.recv(65536)
        threading.Event().wait(delay_s)
        sink.sendall(first)
        while piece := source.recv(65536):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def nobody() -> Iterator[SshTarget]:
    """Provide a port on which nothing listens."""
    address, port = free_address()
    yield SshTarget(name="nobody", address=address, port=port)


@contextlib.contextmanager
def full_port(at: str | None = None) -> Iterator[SshTarget]:
    """Provide a port that drops every packet of a new connection: nobody accepts, and it is full.

    Args:
        at: the address; None for one of its own.

    Source: Linux, tcp_conn_request(): a SYN is dropped while the accept queue is full; measured
    2026-11 with 6.18.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(free_address() if at is None else (at, 0))
        server.listen(0)
        address, port = server.getsockname()
        for _ in range(_MOST_FILLERS):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(_FULL_AFTER_S)
            try:
                filler.connect((address, port))
            except TimeoutError:
                break
        else:
            raise AssertionError("the port does not fill up")
        yield SshTarget(name="full", address=address, port=port)
