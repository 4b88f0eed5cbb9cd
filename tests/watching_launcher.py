"""The launcher's watch over its hosts, as a program of its own that runs on a host of a farm.

    python -m tests.watching_launcher ROOT PORT TIMEOUT KIND NAME=ADDRESS...

KIND is `agents`, where channels to the workers are kept open too, or `plain`. Every event, and at
last the alarm, is a line on its output. It ends at the end of its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from mpi_agent.job.events import Event, Noted, WorkerLost, WorkerReturned, WorkerSuspected
from mpi_agent.job.readiness import HostReadiness, Stage
from mpi_agent.run.lost_hosts import LostHosts
from mpi_agent.run.watched import WatchedWorkers
from mpi_agent.ssh.banner import read_banner
from mpi_agent.ssh.remote import SshWorkers
from mpi_agent.ssh.trust import SshTarget, SshTerms, render_known_hosts
from mpi_agent.ssh.worker_words import Call, LauncherId, Verb

_RUN_ID = "0a1b2c3d.0a1b2c3d.0a1b2c3d.1"


def main(root: str, port: str, timeout_s: str, kind: str, *hosts: str) -> None:
    """Watch hosts until the input ends."""
    known = tuple(_host(*host.split("=", 1), port=int(port)) for host in hosts)
    asyncio.run(_watch(Path(root), known, float(timeout_s), has_agents=kind == "agents"))


def _host(name: str, address: str, *, port: int) -> HostReadiness:
    return HostReadiness(
        host=name,
        stage=Stage.EQUIPPED,
        is_ready=True,
        address=address,
        port=port,
        banner=read_banner(address, port, timeout_s=10.0),
    )


async def _watch(
    root: Path, hosts: tuple[HostReadiness, ...], timeout_s: float, *, has_agents: bool
) -> None:
    known_hosts = root / "known_hosts_of_the_watch"
    known_hosts.write_text(render_known_hosts((root / "job_key.pub").read_text()))
    terms = SshTerms(
        key_path=str(root / "job_key"),
        known_hosts_path=str(known_hosts),
        user="root",
        checks_host_keys=True,
    )
    watched = WatchedWorkers(
        [
            SshTarget(name=host.host, port=host.port or 0, address=host.address)
            for host in hosts
            if has_agents
        ],
        SshWorkers(terms),
        Call(
            verb=Verb.WATCH,
            launcher=LauncherId(name="pi-launcher", container="c0ffee"),
            run_id=_RUN_ID,
        ),
        emit=_say_event,
        worker_timeout_s=timeout_s,
    )
    lost = LostHosts(hosts, worker_timeout_s=timeout_s, emit=_say_event, heard=watched.heard)
    async with watched:
        watched.begin()
        while has_agents and not all((h := watched.heard(o.host)) and h.is_open for o in hosts):
            await asyncio.sleep(0.05)
        _say("watching")
        noticing = asyncio.create_task(lost.noticed())
        noticing.add_done_callback(_say_alarm)
        await _end_of_input()
        noticing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await noticing
        await watched.end(0, limit_s=2.0)
    _say("ended")


def _say_alarm(noticing: asyncio.Task[object]) -> None:
    if not noticing.cancelled():
        alarm = noticing.result()
        _say(f"alarm {getattr(alarm, 'why', alarm)}")


def _say_event(event: Event) -> None:
    match event:
        case WorkerSuspected(host=host, why=why):
            _say(f"suspected {host}: {why}")
        case WorkerReturned(host=host, silent_s=silent_s):
            _say(f"returned {host} after {silent_s:.1f} s")
        case WorkerLost(loss=loss):
            _say(f"lost {loss.host}: {loss.why} ({loss.noticed_after_s:.1f} s)")
        case Noted(text=text):
            _say(f"noted {text}")


def _say(line: str) -> None:
    print(line, flush=True)


async def _end_of_input() -> None:
    await asyncio.to_thread(lambda: os.read(0, 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
