"""A read-only HTTP server for the kubelet, for Prometheus and for people: a few pages, GET alone.

It runs in daemon threads beside the event loop, so it answers while the loop is busy and never
holds up the agent's end. A client gets a few seconds in all, however slowly it sends or reads;
when too many are connected, the oldest one makes room.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Self

from mpi_agent.observe.pages import Page, Pages, text_page

__all__ = ["HttpServer"]

CLIENT_LIMIT_S = 5.0
_MOST_CLIENTS = 16
_ROOM_LIMIT_S = 1.0


class HttpServer:
    """Serves pages while its `with` block runs; every other path is 404.

    Args:
        address: where to listen; None for every address, of IPv4 and IPv6.
        port: 0 for any that is free.
        pages: by path; each is called, in a thread of its own, when it is asked for.
        client_limit_s: seconds that one client gets.
    """

    def __init__(
        self,
        *,
        address: str | None,
        port: int,
        pages: Pages,
        client_limit_s: float = CLIENT_LIMIT_S,
    ) -> None:
        self._address = address
        self._port = port
        self._clients = _Clients(limit_s=client_limit_s)
        self._pages = pages

    def __enter__(self) -> Self:
        """Listen and serve.

        Raises:
            OSError: the address is not ours, or the port is taken.
        """
        self._server = _Server(self._address, self._port, self._pages, self._clients)
        thread = threading.Thread(
            target=self._server.serve_forever, name="mpi-agent-http", daemon=True
        )
        thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop at once, also in the middle of an answer."""
        self._server.stop()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._server.server_address[1]
        return port


class _Clients:
    """Connections that are open, with the time at which each was accepted, oldest first."""

    def __init__(self, *, limit_s: float) -> None:
        self._limit_s = limit_s
        self._accepted_at_s: dict[socket.socket, float] = {}
        self._changed = threading.Condition()

    def admit(self, connection: socket.socket) -> bool:
        """Take a connection in, if need be in place of the oldest; False when none gave way."""
        with self._changed:
            while len(self._accepted_at_s) >= _MOST_CLIENTS:
                _cut(next(iter(self._accepted_at_s)))
                if not self._changed.wait(_ROOM_LIMIT_S):
                    return False
            self._accepted_at_s[connection] = time.monotonic()
            return True

    def forget(self, connection: socket.socket) -> None:
        """Drop a connection that is about to be closed."""
        with self._changed:
            self._accepted_at_s.pop(connection, None)
            self._changed.notify()

    def cut_overdue(self) -> None:
        """End the connections whose time is up; their threads notice and go."""
        self._cut_accepted_before(time.monotonic() - self._limit_s)

    def cut_all(self) -> None:
        """End every connection."""
        self._cut_accepted_before(float("inf"))

    def _cut_accepted_before(self, at_s: float) -> None:
        with self._changed:
            for connection, accepted_at_s in self._accepted_at_s.items():
                if accepted_at_s < at_s:
                    _cut(connection)


class _Server(ThreadingMixIn, TCPServer):
    """One thread accepts, one thread for each client answers; none of them outlives the agent.

    Not `http.server.HTTPServer`: that one asks the name server for our own name before it listens.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        address: str | None,
        port: int,
        pages: Pages,
        clients: _Clients,
    ) -> None:
        self.pages = pages
        self._clients = clients
        if address is None:
            address = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
        first = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        self.address_family = first[0]
        super().__init__((address, port), _Handler)

    def server_bind(self) -> None:
        """Bind, for both families when the address is an IPv6 one."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a client, once there is room."""
        if self._clients.admit(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection; it is dropped first, so that no closed one is ever cut."""
        self._clients.forget(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Look at the clock; called after each connection and at least twice a second."""
        self._clients.cut_overdue()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent about a client that went away; anything else is a bug, and shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Stop listening and end every connection."""
        with suppress(OSError):
            # wakes the thread that waits for connections; `shutdown` alone waits up to 0.5 s for it
            self.socket.shutdown(socket.SHUT_RDWR)
        self.shutdown()
        self.server_close()
        self._clients.cut_all()


class _Handler(BaseHTTPRequestHandler):
    """Answers one GET with one of the server's pages."""

    server: _Server
    server_version = "mpi-agent"
    sys_version = ""
    default_request_version = "HTTP/1.0"  # else what is no request is answered without a code

    def do_GET(self) -> None:
        """Send the page, or 404."""
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(page())

    def send_error(
        self,
        code: int,
        message: str | None = None,  # noqa: ARG002
        explain: str | None = None,  # noqa: ARG002
    ) -> None:
        """Refuse in plain text; the parent calls a method without a `do_` not implemented."""
        refused = HTTPStatus(code)
        if refused is HTTPStatus.NOT_IMPLEMENTED:
            refused = HTTPStatus.METHOD_NOT_ALLOWED
        self._send(text_page(refused.phrase, code=refused))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep requests out of the log: the kubelet asks every few seconds."""

    def _send(self, page: Page) -> None:
        self.send_response(page.code)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        if page.code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
