"""A worker's pages over real HTTP, beside a real event loop."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from typing import TypeAlias

import pytest

from mpi_agent.errors import SettingsError
from mpi_agent.job.worker_events import WorkerDraining, WorkerNotReady, WorkerReady
from mpi_agent.observe.usage import Usage, usage_here
from mpi_agent.observe.worker_pages import serving_worker_pages
from mpi_agent.observe.worker_status import Role, WorkerStatus
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

Answer: TypeAlias = tuple[int, str]
_LIMIT_S = 10.0
READY = WorkerReady(server="openssh", port=2222, user="mpiuser")
DRAINING = WorkerDraining(signal_name="SIGTERM", drain_signal_name="SIGTERM", ranks=0, grace_s=25.0)


def a_status() -> WorkerStatus:
    """Return the status of a worker that has just started."""
    return WorkerStatus(role=Role.WORKER, name="w-0", now_s=time.monotonic, look=Usage)


def ask(port: int, path: str, method: str = "GET") -> Answer:
    """Return code and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LIMIT_S)
    connection.request(method, path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def told_over_http(*events: WorkerReady | WorkerNotReady | WorkerDraining | None) -> list[Answer]:
    """Return what /readyz answers after each event."""

    async def play() -> list[Answer]:
        status = a_status()
        told = []
        async with serving_worker_pages(status, 0, address="127.0.0.1") as port:
            assert port is not None
            for event in events:
                if event is not None:
                    status(event)
                told.append(await asyncio.to_thread(ask, port, "/readyz"))
        return told

    return asyncio.run(play())


def test_readiness_follows_the_life_of_the_worker() -> None:
    """Not ready, ready, not ready again, and draining until the end."""
    told = told_over_http(None, READY, WorkerNotReady(why="sshd is gone"), READY, DRAINING, READY)

    assert told == [
        (503, "not ready: its ssh server has not answered yet\n"),
        (200, "ready\n"),
        (503, "not ready: sshd is gone\n"),
        (200, "ready\n"),
        (503, "not ready: it is draining after SIGTERM\n"),
        (503, "not ready: it is draining after SIGTERM\n"),
    ]


def test_the_other_pages_tell_the_same() -> None:
    """To the kubelet, to people, and to Prometheus."""

    async def look() -> list[Answer]:
        status = a_status()
        status(READY)
        async with serving_worker_pages(status, 0, address="127.0.0.1") as port:
            assert port is not None
            pages = ("/healthz", "/status", "/metrics")
            return [await asyncio.to_thread(ask, port, page) for page in pages]

    health, page, metrics = asyncio.run(look())

    assert health == (200, "ok\n")
    values = json.loads(page[1])
    assert (values["role"], values["name"], values["phase"]) == ("worker", "w-0", "ready")
    assert "mpi_agent_worker_ready 1.0\n" in metrics[1]


@pytest.mark.parametrize("path", ["/readyz", "/healthz", "/status", "/metrics"])
def test_nothing_can_be_changed_over_http(path: str) -> None:
    """Who asks is not known."""

    async def try_to() -> list[int]:
        async with serving_worker_pages(a_status(), 0, address="127.0.0.1") as port:
            assert port is not None
            methods = ("POST", "PUT", "DELETE", "PATCH")
            return [(await asyncio.to_thread(ask, port, path, method))[0] for method in methods]

    assert asyncio.run(try_to()) == [405] * 4


def test_a_loop_that_hangs_is_not_healthy_and_recovers() -> None:
    """The page is served by a thread, which would answer for ever."""
    seen: list[Answer] = []
    go_on = threading.Event()

    def watch(port: int) -> None:
        wait_until("it is not healthy", lambda: ask(port, "/healthz")[0] == 503)
        seen.extend((ask(port, "/healthz"), ask(port, "/readyz")))
        go_on.set()
        wait_until("it is healthy again", lambda: ask(port, "/healthz")[0] == 200)

    async def hang() -> None:
        status = a_status()
        status(READY)
        async with serving_worker_pages(status, 0, address="127.0.0.1", stuck_after_s=0.2) as port:
            assert port is not None
            watching = asyncio.create_task(asyncio.to_thread(watch, port))
            await asyncio.sleep(0)
            assert go_on.wait(_LIMIT_S)
            await watching

    asyncio.run(hang())

    assert [code for code, _ in seen] == [503, 503]
    assert "the agent has been stuck for" in seen[0][1]


def test_a_port_that_cannot_be_had_ends_the_worker_with_its_reason() -> None:
    """Its probe would fail for ever, and nobody would know why."""

    async def try_to(port: int) -> None:
        async with serving_worker_pages(a_status(), port, address="127.0.0.1"):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(SettingsError, match=f"HTTP on port {port}: Address already") as raised:
            asyncio.run(try_to(port))

    assert "--http-port" in raised.value.hint


def test_nothing_is_served_without_a_port() -> None:
    """A worker is asked with `mpi-agent ready` then, or by its file."""

    async def serve() -> int | None:
        async with serving_worker_pages(a_status(), None) as port:
            return port

    assert asyncio.run(serve()) is None


def test_a_worker_without_pages_loads_nothing_for_them() -> None:
    """An idle worker is small; the pages add 3 MB to it."""
    code = (
        "import sys, mpi_agent.observe.worker_pages, mpi_agent.observe.worker_status; "
        "print({'prometheus_client', 'http.server', 'psutil'} & set(sys.modules))"
    )

    assert said_by_python(code) == "set()\n"


def test_ranks_that_run_elsewhere_on_the_machine_are_not_this_workers() -> None:
    """Only what descends from it is."""
    ask_another = "from mpi_agent.observe.usage import usage_here; print(usage_here().ranks)"
    environ = {"PATH": "/usr/bin:/bin", "PMI_RANK": "4"}
    with subprocess.Popen(["sleep", "60"], env=environ) as rank:
        try:
            wait_until("it is seen", lambda: rank.pid in {r.pid for r in usage_here().ranks})

            assert said_by_python(ask_another) == "()\n"
        finally:
            rank.terminate()


def said_by_python(code: str) -> str:
    """Return what a Python of its own prints."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
