"""Hosts that change while they are waited for: a hostfile that is replaced, a script that lists."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from mpi_agent.discover.follow import Follower
from mpi_agent.discover.mpi_operator import JobIdentity
from mpi_agent.discover.readers import HostfileReader, Reader, ScriptReader
from mpi_agent.discover.slots import DefaultSlots, OwnNames, to_host_list
from mpi_agent.job.events import HostsChanged, Noted
from mpi_agent.job.hosts import DiscoveredHosts, HostList
from tests.agents import running_agent, running_hosts
from tests.fakes import EventRecorder
from tests.workers import JobKeys

pytestmark = pytest.mark.integration

PI = JobIdentity(job="pi", namespace="default")
PAUSE_S = 0.02
LIMIT_S = 20.0


class ConfigMap:
    """A directory as the kubelet mounts it: files lead by a link that is replaced as a whole.

    Source: Kubernetes, pkg/volume/util/atomic_writer.go.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._edition = 0
        directory.mkdir()
        (directory / "hostfile").symlink_to("..data/hostfile")

    @property
    def hostfile(self) -> Path:
        """Where a container reads it."""
        return self._directory / "hostfile"

    def replace(self, text: str) -> None:
        """Replace the content at once."""
        self._edition += 1
        edition = self._directory / f"..edition-{self._edition}"
        edition.mkdir()
        (edition / "hostfile").write_text(text)
        link = self._directory / "..data_tmp"
        link.symlink_to(edition.name)
        link.rename(self._directory / "..data")


@dataclass(slots=True)
class Followed:
    """What a follower has told and handed over so far."""

    recorder: EventRecorder = field(default_factory=EventRecorder)
    hosts: list[HostList] = field(default_factory=list)

    @property
    def changes(self) -> list[HostsChanged]:
        """The changes that were told."""
        return [event for event in self.recorder.events if isinstance(event, HostsChanged)]

    @property
    def notes(self) -> list[str]:
        """The notes that were told."""
        return [event.text for event in self.recorder.events if isinstance(event, Noted)]

    async def until(self, check: Callable[[], bool]) -> None:
        """Return once a claim holds."""
        async with asyncio.timeout(LIMIT_S):
            while not check():
                await asyncio.sleep(PAUSE_S)


def to_hosts(found: DiscoveredHosts) -> HostList:
    """Return the hosts of a launcher that is none of them."""
    own = OwnNames(host_name="pi-launcher", names=(), addresses=())
    slots = DefaultSlots(count=1, origin="default")
    return to_host_list(found, slots=slots, own=own, numeric_order=True)


def follow(reader: Reader, steps: Callable[[Followed], Awaitable[None]]) -> Followed:
    """Follow a source while the steps are taken."""

    async def run() -> Followed:
        followed = Followed()
        follower = Follower(
            reader,
            to_hosts(await reader.read()),
            to_host_list=to_hosts,
            notes=(),
            emit=followed.recorder,
        )
        task = asyncio.create_task(follower.follow(followed.hosts.append))
        try:
            await steps(followed)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return followed

    return asyncio.run(run())


def workers(*indices: int) -> str:
    """Return a hostfile of the operator."""
    return "".join(f"pi-worker-{index}.pi.default.svc slots=2\n" for index in indices)


@pytest.fixture
def config_map(tmp_path: Path) -> ConfigMap:
    """Provide a mounted ConfigMap with two workers."""
    made = ConfigMap(tmp_path / "mpi")
    made.replace(workers(0, 1))
    return made


def test_a_replaced_hostfile_is_followed_up_and_down_in_numeric_order(
    config_map: ConfigMap,
) -> None:
    """As the operator replaces it at a scale; the last reading is what is planned with."""

    async def scale(followed: Followed) -> None:
        config_map.replace(workers(0, 1, 10, 2))
        await followed.until(lambda: len(followed.changes) == 1)
        config_map.replace(workers(1))
        await followed.until(lambda: len(followed.changes) == 2)

    followed = follow(HostfileReader(config_map.hostfile, PI, pause_s=PAUSE_S), scale)

    up, down = followed.changes
    assert up.added == ("pi-worker-2.pi.default.svc", "pi-worker-10.pi.default.svc")
    assert (up.removed, down.added) == ((), ())
    assert [host.index for host in followed.hosts[-1].hosts] == [0]
    assert followed.hosts[-1].names == ("pi-worker-1.pi.default.svc",)


def test_other_slots_are_a_change_too(config_map: ConfigMap) -> None:
    """Nobody comes or goes, and the plan is another one."""

    async def change(followed: Followed) -> None:
        config_map.replace(workers(0, 1).replace("slots=2", "slots=4"))
        await followed.until(lambda: bool(followed.changes))

    followed = follow(HostfileReader(config_map.hostfile, PI, pause_s=PAUSE_S), change)

    assert (followed.changes[0].added, followed.changes[0].removed) == ((), ())
    assert followed.hosts[-1].total_slots == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no entries"),
        ("pi-worker-0 slots=none\n", '"none" is not a number of slots'),
        ("pi-worker-0.pi.other.svc slots=2\n", "cannot belong to job"),
        (None, "there is no such file"),
    ],
    ids=["empty", "nonsense", "strangers", "gone"],
)
def test_a_hostfile_that_is_bad_for_a_moment_is_told_once_and_changes_nothing(
    config_map: ConfigMap, text: str | None, said: str
) -> None:
    """Until it is good again."""

    async def break_and_mend(followed: Followed) -> None:
        if text is None:
            config_map.hostfile.rename(config_map.hostfile.with_name("away"))
        else:
            config_map.replace(text)
        await followed.until(lambda: bool(followed.notes))
        if text is None:
            config_map.hostfile.with_name("away").rename(config_map.hostfile)
        config_map.replace(workers(0, 1, 2))
        await followed.until(lambda: bool(followed.changes))

    followed = follow(HostfileReader(config_map.hostfile, PI, pause_s=PAUSE_S), break_and_mend)

    (note,) = followed.notes
    assert said in note
    assert note.endswith("the hosts known before are waited for")
    assert [len(hosts.hosts) for hosts in followed.hosts] == [3]


def test_a_file_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    """Half a hostfile is a smaller job."""
    path = tmp_path / "hostfile"
    path.write_text(workers(0, 1))
    reader = HostfileReader(path, None)

    async def look_while_writing() -> list[DiscoveredHosts | None]:
        await reader.read()
        with path.open("w") as stream:
            looks = []
            for index in range(3):
                stream.write(workers(index))
                stream.flush()
                looks.append(await reader.read_if_new())
        return [*looks, await reader.read_if_new()]

    *during, after = asyncio.run(look_while_writing())

    assert during == [None, None, None]
    assert after is not None
    assert len(after.entries) == 3


def test_a_script_adds_hosts_and_removes_none(tmp_path: Path) -> None:
    """It lists who runs at the moment, which is not who is expected."""
    listed = tmp_path / "listed"
    listed.write_text("pi-worker-1\n")
    script = tmp_path / "discover_hosts.sh"
    script.write_text(f"#!/bin/sh\ncat {listed}\n")

    async def change(followed: Followed) -> None:
        listed.write_text("pi-worker-10\npi-worker-2\nother-worker-0\n")
        await followed.until(lambda: bool(followed.changes))

    followed = follow(ScriptReader(script, PI, pause_s=PAUSE_S), change)

    assert followed.hosts[0].names == ("pi-worker-1", "pi-worker-2", "pi-worker-10")
    assert followed.changes[0].removed == ()
    assert followed.notes == ["other-worker-0 cannot belong to this job; left out and not dialled"]


def test_a_script_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Whoever stops the wait does not wait for the script, and nothing of it is left."""
    script = tmp_path / "discover_hosts.sh"
    hangs = tmp_path / "hangs"
    script.write_text(
        f"#!/bin/sh\necho pi-worker-0\n[ ! -e {hangs}.now ] || {{ echo $$ >{hangs}; sleep 600; }}\n"
    )

    async def until_it_hangs(followed: Followed) -> None:
        hangs.with_suffix(".now").touch()
        await followed.until(lambda: hangs.exists() and bool(hangs.read_text().strip()))

    started_at_s = time.monotonic()
    follow(ScriptReader(script, PI, pause_s=PAUSE_S), until_it_hangs)

    assert time.monotonic() - started_at_s < 8
    assert not psutil.pid_exists(int(hangs.read_text()))


def test_a_wait_follows_its_hostfile_to_the_end(root: Path, keys: JobKeys) -> None:
    """The host that never comes is scaled away; the new one is ready, so the wait is over."""
    config_map = ConfigMap(root / "mpi")
    config_map.replace("w-9.pi slots=1\n")
    with running_hosts(keys, root, "w-0.pi", down=("w-9.pi",)) as job:
        words = ("--hostfile", str(config_map.hostfile), "--output", "json")
        with running_agent(*job.words("wait"), *words) as agent:
            agent.wait_until_it_says("waiting for hosts=1")
            config_map.replace("w-0.pi slots=1\n")
            code, out, err = agent.end()

    assert code == 0, err
    assert "the hosts changed while waiting: hosts=1 added=w-0.pi removed=w-9.pi" in err
    assert [host["name"] for host in json.loads(out)["hosts"]] == ["w-0.pi"]


def test_a_launch_plans_with_the_hosts_of_the_last_reading(root: Path, keys: JobKeys) -> None:
    """Hostfile, ssh configuration and np are those of the job as it is when it starts."""
    config_map = ConfigMap(root / "mpi")
    config_map.replace("w-9.pi slots=1\n")
    program = 'cat "$MPI_AGENT_HOSTFILE"; echo "np=$MPI_AGENT_NP" # in place of mpirun'
    with running_hosts(keys, root, "w-0.pi", down=("w-9.pi",)) as job:
        words = ("--hostfile", str(config_map.hostfile), "--", "sh", "-c", program)
        with running_agent(*job.words("launch"), *words) as agent:
            agent.wait_until_it_says("waiting for hosts=1")
            config_map.replace("w-0.pi slots=3\n")
            code, out, err = agent.end()
        config = (root / "launcher" / "ssh_config").read_text()

    assert (code, out) == (0, "w-0.pi slots=3\nnp=3\n"), err
    assert "Host w-0.pi\n" in config
    assert "Host w-9.pi\n" not in config


def test_a_stop_signal_ends_a_wait_that_follows_a_file(root: Path, keys: JobKeys) -> None:
    """At once, and the hostfile may be gone."""
    config_map = ConfigMap(root / "mpi")
    config_map.replace("w-9.pi slots=1\n")
    with (
        running_hosts(keys, root, down=("w-9.pi",)) as job,
        running_agent(*job.words("wait"), "--hostfile", str(config_map.hostfile)) as agent,
    ):
        agent.wait_until_it_says("waiting for hosts=1")
        os.unlink(config_map.hostfile)
        agent.wait_until_it_says("there is no such file; the hosts known before are waited for")
        sent_at_s = time.monotonic()
        code, _, _ = agent.end(signal_number=signal.SIGTERM)

    assert code == 143
    assert time.monotonic() - sent_at_s < 3.0
