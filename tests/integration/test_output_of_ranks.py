"""Output of real ranks told apart by what real launchers put in front of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.stack import detect_stack
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.job.output import Stream
from mpi_agent.run.rank_logs import RankLogs, open_log_directory
from tests.builders import a_launch_request
from tests.farm_launch import ALL_STACKS
from tests.stacks import MpiStack, require_stack
from tests.workers import REPOSITORY

pytestmark = pytest.mark.integration

NP = 3
LIMIT_S = 60.0
_PROGRAM = REPOSITORY / "tests" / "rank_output.py"
_CHUNK_BYTES = 1 << 16


def planned(mpi: MpiStack, directory: Path, *, tags: bool = False, splits: bool) -> LaunchPlan:
    """Return the plan of three ranks on this machine, with its hostfile written."""
    request = replace(
        a_launch_request(sys.executable, str(_PROGRAM), str(directory), environ=dict(os.environ)),
        hostfile_path=str(directory / "hostfile"),
        ssh=None,
        runs_as_root=os.getuid() == 0,
        loopback_only=True,
        tags_output=tags,
        splits_output=splits,
    )
    here = Host(name="localhost", slots=NP, role=Role.WORKER, index=0, is_local=True)
    stack = detect_stack(str(mpi.mpirun), called_as=None, search_path=())
    plan = build_plan(request, HostList(hosts=(here,), source="here"), stack)
    Path(plan.hostfile_path).write_text(plan.hostfile_text)
    return plan


def started(plan: LaunchPlan) -> subprocess.Popen[bytes]:
    """Start the plan with pipes."""
    return subprocess.Popen(
        plan.argv,
        executable=plan.executable,
        env=plan.environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def copied(stream: IO[bytes], into: RankLogs, kind: Stream) -> threading.Thread:
    """Start a thread that hands on what comes, as the agent's does."""

    def copy() -> None:
        while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
            into.take(chunk, kind)

    thread = threading.Thread(target=copy)
    thread.start()
    return thread


async def told_apart(plan: LaunchPlan, logs: Path, *, limit_bytes: int | None = None) -> None:
    """Run the plan to its end, with files of its ranks."""
    notes: list[str] = []
    open_log_directory(logs)
    files = RankLogs(
        logs, form=plan.tag_form, np=plan.np, limit_bytes=limit_bytes, note=notes.append
    )
    with started(plan) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        threads = (
            copied(child.stdout, files, Stream.STDOUT),
            copied(child.stderr, files, Stream.STDERR),
        )
        try:
            assert await asyncio.to_thread(child.wait, LIMIT_S) == 0
        finally:
            child.kill()
            for thread in threads:
                await asyncio.to_thread(thread.join)
    await files.finish()
    assert notes == []


@ALL_STACKS
def test_the_file_of_a_rank_has_what_it_wrote_byte_for_byte(name: str, tmp_path: Path) -> None:
    """Long lines, pieces, returns, and text that only looks like a tag."""
    plan = planned(require_stack(name), tmp_path, splits=True)

    asyncio.run(told_apart(plan, tmp_path / "logs"))

    for rank in range(NP):
        wrote = (tmp_path / f"wrote-{rank}").read_bytes()
        kept = (tmp_path / "logs" / f"rank-{rank:04d}.out").read_bytes()
        assert kept.count(b"err\n") == 1
        assert kept.replace(b"err\n", b"") == wrote


@ALL_STACKS
def test_a_limit_keeps_the_beginning_and_the_end_of_each_rank(name: str, tmp_path: Path) -> None:
    """Whatever the rank writes."""
    plan = planned(require_stack(name), tmp_path, splits=True)

    asyncio.run(told_apart(plan, tmp_path / "logs", limit_bytes=40_000))

    for rank in range(NP):
        wrote = (tmp_path / f"wrote-{rank}").read_bytes()
        parts = sorted((tmp_path / "logs").glob(f"rank-{rank:04d}*.out"))
        first = (tmp_path / "logs" / f"rank-{rank:04d}.out").read_bytes()
        assert sum(part.stat().st_size for part in parts) <= 40_000
        assert len(first) == 20_000
        assert wrote.startswith(first.replace(b"err\n", b""))


@ALL_STACKS
def test_each_line_has_its_rank_in_front_where_that_is_asked_for(name: str, tmp_path: Path) -> None:
    """In the launcher's own form."""
    mpi = require_stack(name)
    plan = planned(mpi, tmp_path, tags=True, splits=False)

    with started(plan) as child:
        out, _ = child.communicate(timeout=LIMIT_S)

    forms = {"openmpi4": b"[1,%d]<stdout>:", "openmpi5": b"[1,%d]<stdout>: "}
    for rank in range(NP):
        assert forms.get(name, b"[%d] ") % rank in out
