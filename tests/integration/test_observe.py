"""Real HTTP, with clients that are well behaved and clients that are not."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from mpi_agent.job.events import ProbeEnded, WaitStarted
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.observe.bar import terminal_width
from mpi_agent.observe.fan_out import FanOut
from mpi_agent.observe.http import HttpServer
from mpi_agent.observe.metrics import Metrics
from mpi_agent.observe.pages import launcher_pages
from mpi_agent.observe.status import Status
from tests.unit.observe.sightings import NAMES, a_missing_host, a_report, a_result
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

_LIMIT_S = 5.0


def a_server(
    *,
    port: int = 0,
    client_limit_s: float = _LIMIT_S,
    report: ReadinessReport | None = None,
) -> HttpServer:
    """Return a server of a job that waits for two of three workers, unless told otherwise."""
    status, metrics = Status(now_s=time.monotonic), Metrics(now_s=time.monotonic)
    emit = FanOut(status, metrics)
    emit(WaitStarted(names=NAMES, timeout_s=600.0))
    emit(ProbeEnded(result=a_result(), report=report or a_report(ready=1)))
    return HttpServer(
        address="127.0.0.1",
        port=port,
        pages=launcher_pages(status, metrics),
        client_limit_s=client_limit_s,
    )


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """Give a server that listens."""
    with a_server() as server:
        yield server


def ask(server: HttpServer, path: str, *, method: str = "GET") -> http.client.HTTPResponse:
    """Return the answer to one request, its body still to be read."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_LIMIT_S)
    connection.request(method, path)
    return connection.getresponse()


def connect(server: HttpServer) -> socket.socket:
    """Return a connection on which nothing was said yet."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=_LIMIT_S)


def clients_served() -> int:
    """Return how many threads answer a client."""
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_the_kubelet_is_told_that_the_agent_lives(server: HttpServer) -> None:
    """With two letters."""
    response = ask(server, "/healthz")

    assert (response.status, response.read()) == (200, b"ok\n")


def test_prometheus_gets_the_metrics(server: HttpServer) -> None:
    """In the text format; a query behind the path does no harm."""
    response = ask(server, "/metrics?x=1")

    assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert b'mpi_agent_hosts{stage="ready"} 1.0\n' in response.read()


def test_people_get_the_status_as_json(server: HttpServer) -> None:
    """With who is missing."""
    response = ask(server, "/status")

    assert response.getheader("Content-Type") == "application/json"
    assert len(json.loads(response.read())["wait"]["not_ready"]) == 2


@pytest.mark.parametrize("path", ["/", "/metrics/", "//status/..", "/%2e", "*"])
def test_there_is_nothing_else(server: HttpServer, path: str) -> None:
    """No page, no file."""
    assert ask(server, path).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"])
def test_nothing_but_reading_is_allowed(server: HttpServer, method: str) -> None:
    """On pages that exist and on others."""
    response = ask(server, "/status", method=method)

    assert (response.status, response.getheader("Allow")) == (405, "GET")


def test_what_is_no_request_gets_no_page(
    server: HttpServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing is said about it on stderr, nor about a client that goes away."""
    with connect(server) as client:
        client.sendall(b"\xff\xfe nonsense with many words\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.0 400 ")
    with connect(server) as client:
        client.sendall(b"GET /status HTTP/1.1\r\n")

    assert ask(server, "/healthz").status == 200
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken_is_told_to_the_caller(server: HttpServer) -> None:
    """With hostNetwork somebody else may have it."""
    with pytest.raises(OSError, match="in use"), a_server(port=server.port):
        pass


def test_every_address_means_ipv4_and_ipv6() -> None:
    """A cluster has the one, the other, or both."""
    status, metrics = Status(now_s=time.monotonic), Metrics(now_s=time.monotonic)
    loopbacks = ["127.0.0.1", "::1"] if _has_ipv6() else ["127.0.0.1"]

    with HttpServer(address=None, port=0, pages=launcher_pages(status, metrics)) as server:
        for address in loopbacks:
            socket.create_connection((address, server.port), timeout=_LIMIT_S).close()


def test_silent_clients_do_not_keep_others_waiting() -> None:
    """More of them than the server has room for: the oldest gives way, long before its time."""
    with ExitStack() as stack:
        server = stack.enter_context(a_server(client_limit_s=600.0))
        silent = [stack.enter_context(connect(server)) for _ in range(40)]

        assert ask(server, "/healthz").status == 200

        assert silent[0].recv(1) == b""


@pytest.mark.parametrize("sent", [b"", b"GET /status HT", b"GET /status HTTP/1.1\r\nA: b\r\n"])
def test_a_client_that_never_finishes_is_cut_off(sent: bytes) -> None:
    """After a few seconds in all; here they are short."""
    with a_server(client_limit_s=0.2) as server, connect(server) as client:
        client.sendall(sent)

        wait_until("the server ends it", lambda: client.recv(4096) == b"", limit_s=3)


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off() -> None:
    """Its time is counted from the beginning, not from the last byte."""

    def is_cut(client: socket.socket) -> bool:
        try:
            client.sendall(b"G")
        except ConnectionError:
            return True
        return False

    with a_server(client_limit_s=0.2) as server, connect(server) as client:
        wait_until("the server ends it", lambda: is_cut(client), limit_s=3)


def test_a_client_that_does_not_read_is_cut_off() -> None:
    """With a page that no buffer holds."""
    result = a_result(detail="x" * 16_000_000)
    missing = (a_missing_host("pi-worker-2", result),)
    report = ReadinessReport(hosts=missing, elapsed_s=1.0, timeout_s=None)

    with a_server(client_limit_s=0.2, report=report) as server, connect(server) as client:
        client.sendall(b"GET /status HTTP/1.1\r\n\r\n")

        wait_until("the page is being sent", lambda: clients_served() == 1)
        wait_until("the server ends it", lambda: clients_served() == 0, limit_s=3)


def test_the_end_does_not_wait_for_a_silent_client() -> None:
    """Its connection is cut, long before its own limit."""
    with ExitStack() as stack:
        server = stack.enter_context(a_server())
        with connect(server) as client:
            wait_until("it is served", lambda: clients_served() == 1)

            started_s = time.monotonic()
            stack.close()
            took_s = time.monotonic() - started_s

            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
    assert took_s < _LIMIT_S / 2


def test_a_terminal_has_columns_once_somebody_sits_in_front_of_it() -> None:
    """A container with `tty: true` has one of size 0 until somebody attaches."""
    master, slave = os.openpty()
    with os.fdopen(master, "w"), os.fdopen(slave, "w") as stream:
        assert terminal_width(stream) == 0

        termios.tcsetwinsize(stream.fileno(), (24, 100))

        assert terminal_width(stream) == 100


def test_a_log_costs_no_metrics() -> None:
    """prometheus_client and http.server are loaded by whoever serves them, and only then."""
    code = (
        "import sys, mpi_agent.observe.bar, mpi_agent.observe.log, mpi_agent.observe.status, "
        "mpi_agent.observe.fan_out; print({'prometheus_client', 'http.server'} & set(sys.modules))"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout == "set()\n"


def _has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True
