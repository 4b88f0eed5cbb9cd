"""Which files a launcher keeps for mpirun, and when they are written; how it looks at its hosts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.command_settings import JobSettings
from mpi_agent.job.hosts import HostList, SlotsOrigin
from mpi_agent.job_access import JobAccess
from mpi_agent.job_finder import Job
from mpi_agent.setting_words import Backend
from mpi_agent.waiter import Waiter
from tests.builders import OPEN_MPI_5_STACK, a_host
from tests.fakes import EventRecorder
from tests.name_servers import Silence, needs_port_53, running_server, write_resolv_conf
from tests.worlds import in_own_etc

pytestmark = pytest.mark.integration


def settings_below(root: Path) -> JobSettings:
    """Return settings with a state directory of their own."""
    return JobSettings(mpi="auto", timeout_s=None, state_dir=str(root / "state"))


def a_program(directory: Path, name: str, does: str) -> Path:
    """Make a program of one line of shell."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("client", [Backend.OPENSSH, Backend.BUILTIN])
def test_what_mpirun_is_to_call_is_named_first_and_written_when_it_is_called(
    root: Path, monkeypatch: pytest.MonkeyPatch, client: Backend
) -> None:
    """A plan that is only printed leaves no program behind."""
    a_program(root / "path", "ssh", "true")
    monkeypatch.setenv("PATH", f"{root / 'path'}:{os.environ['PATH']}")
    access = JobAccess(settings_below(root), emit=EventRecorder(), client=client)

    named = access.for_mpirun()
    before = sorted(access.state.path.iterdir())
    access.write_programs(mpirun=str(a_program(root / "mpi", "mpirun", "echo the chosen one")))

    assert named.directory is not None
    said = subprocess.run(
        [f"{named.directory}/mpirun"], capture_output=True, text=True, check=True
    ).stdout
    assert before == []
    assert os.access(f"{named.directory}/ssh", os.X_OK)
    assert said == "the chosen one\n"
    if named.agent_program is not None:
        assert os.access(named.agent_program, os.X_OK)


def test_the_ssh_in_front_runs_local_commands_whatever_the_accounts_shell(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SHELL=/sbin/nologin OpenSSH's LocalCommand would leave no mark of the host."""
    a_program(root / "path", "ssh", 'printf "%s\\n" "${SHELL-unset}" "$@"')
    monkeypatch.setenv("PATH", f"{root / 'path'}:{os.environ['PATH']}")
    access = JobAccess(settings_below(root), emit=EventRecorder(), client=Backend.OPENSSH)
    access.write_programs(mpirun=None)

    said = subprocess.run(
        [f"{access.for_mpirun().directory}/ssh", "w-0", "true"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "SHELL": "/sbin/nologin"},
    ).stdout

    strict = ("-o", "StrictHostKeyChecking=yes")
    assert said.split() == ["unset", "-F", access.config_path, *strict, "w-0", "true"]


def plan_words(root: Path) -> tuple[str, ...]:
    """Return the command line of a plan for two hosts."""
    mpirun = a_program(root / "mpi", "mpirun", 'echo "mpirun (Open MPI) 5.0.7"')
    job = ("--hosts", "w-0.pi:2,w-1.pi:2", "--mpi", str(mpirun), "--state-dir", str(root / "state"))
    return (sys.executable, "-m", "mpi_agent", "plan", *job, "--", "./x")


def test_a_plan_writes_nothing(root: Path) -> None:
    """It may be asked for beside a launch that is running."""
    ended = subprocess.run(plan_words(root), capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "w-1.pi" in ended.stdout
    assert list((root / "state").iterdir()) == []


@needs_port_53
def test_a_silent_name_server_holds_a_plan_up_for_three_seconds(root: Path) -> None:
    """Libc's own patience is 5 s for each try and server, and its threads cannot be ended."""
    with running_server() as server:
        server.rules.append(lambda _: Silence.KEPT)
        resolv_conf = write_resolv_conf(root / "resolv.conf", server.address)
        words = (*in_own_etc(resolv_conf=resolv_conf), *plan_words(root))
        started_s = time.monotonic()
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        took_s = time.monotonic() - started_s

    assert ended.returncode == 0, ended.stderr
    assert "hosts that do not resolve yet" in ended.stderr
    assert 2.5 < took_s < 5.0


def test_a_host_that_is_asked_here_does_not_hold_the_agent_up(root: Path) -> None:
    """Signals and the status page are served meanwhile."""
    a_program(root / "path", "nproc", "sleep 0.5; echo 3")
    environ = {"PATH": f"{root / 'path'}:{os.environ['PATH']}", "NVIDIA_VISIBLE_DEVICES": "none"}
    settings = settings_below(root)
    access = JobAccess(settings, emit=EventRecorder())
    waiter = Waiter(settings, (), access, environ=environ, emit=EventRecorder())
    host = replace(a_host(is_local=True), slots_from=SlotsOrigin.WANTED)
    job = Job(
        hosts=HostList(hosts=(host,), source="--hosts"),
        stack=OPEN_MPI_5_STACK,
        keeps_host_option=False,
    )

    async def work() -> tuple[float, SlotsOrigin]:
        asking = asyncio.create_task(waiter.until_ready(job, None))
        longest_s, before_s = 0.0, time.monotonic()
        while not asking.done():
            await asyncio.wait({asking}, timeout=0.02)
            longest_s = max(longest_s, time.monotonic() - before_s)
            before_s = time.monotonic()
        return longest_s, asking.result().job.hosts.hosts[0].slots_from

    longest_s, slots_from = asyncio.run(work())

    assert longest_s < 0.3
    assert slots_from is SlotsOrigin.FOUND
