"""Serves a worker's pages while it runs, and lets its event loop say that it still turns."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from mpi_agent.errors import SettingsError
from mpi_agent.observe.heartbeat import STUCK_AFTER_S, Heartbeat
from mpi_agent.observe.worker_status import WorkerStatus

__all__ = ["serving_worker_pages"]


@contextlib.asynccontextmanager
async def serving_worker_pages(
    status: WorkerStatus,
    http_port: int | None,
    *,
    address: str | None = None,
    stuck_after_s: float = STUCK_AFTER_S,
) -> AsyncIterator[int | None]:
    """Serve the pages inside an `async with` block; give the port, None where nothing is served.

    What it needs is loaded only where a port is given.

    Args:
        address: where to listen; None for every address.
        stuck_after_s: for how long the event loop may stand still and count as alive.

    Raises:
        SettingsError: the port cannot be had. A launcher goes on without its pages, but a worker
            that its probe cannot ask would never be ready, and nobody would know why.
    """
    if http_port is None:
        yield None
        return
    from mpi_agent.observe.http import HttpServer
    from mpi_agent.observe.pages import worker_pages
    from mpi_agent.observe.worker_metrics import WorkerMetrics

    heartbeat = Heartbeat(now_s=time.monotonic, limit_s=stuck_after_s)
    pages = worker_pages(status, WorkerMetrics(status), heartbeat)
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(HttpServer(address=address, port=http_port, pages=pages))
        except OSError as error:
            raise _port_error(http_port, error) from error
        beating = asyncio.create_task(_keep_beating(heartbeat))
        try:
            yield server.port
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)


def _port_error(port: int, error: OSError) -> SettingsError:
    return SettingsError(
        f"cannot serve HTTP on port {port}: {error.strerror or error}",
        hint="choose another port with --http-port; with hostNetwork, workers that share a machine "
        "need one each",
    )


async def _keep_beating(heartbeat: Heartbeat) -> None:
    while True:
        heartbeat.beat()
        await asyncio.sleep(heartbeat.pause_s)
