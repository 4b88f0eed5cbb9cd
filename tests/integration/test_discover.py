"""Finding the hosts from real files and real scripts, good ones and bad ones."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mpi_agent.command.hostfile import HostfileForm, render_hostfile
from mpi_agent.discover.mpi_operator import JobIdentity
from mpi_agent.discover.script import run_discover_script
from mpi_agent.discover.slots import DefaultSlots, OwnNames, to_host_list
from mpi_agent.discover.sources import Discovery, SourceRequest, discover_hosts
from mpi_agent.errors import (
    HostsNotReadyError,
    HostSourceInvalidError,
    HostSourceMissingError,
    MpiAgentError,
)

pytestmark = pytest.mark.integration
PI = JobIdentity(job="pi", namespace="default")


def write_script(directory: Path, body: str, *, mode: int = 0o555) -> Path:
    """Write a discover script as the operator mounts it."""
    directory.mkdir(exist_ok=True)
    script = directory / "discover_hosts.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(mode)
    return script


def discover(request: SourceRequest) -> Discovery:
    """Discover for job `pi` in namespace `default`."""
    return asyncio.run(discover_hosts(request, PI))


def test_the_operators_hostfile_counts_and_is_put_in_order(tmp_path: Path) -> None:
    """The script, which lists fewer, does not lower the count."""
    write_script(tmp_path, "echo pi-worker-0.pi.default.svc")
    lines = [f"pi-worker-{i}.pi.default.svc slots=2" for i in (0, 1, 10, 2)]
    (tmp_path / "hostfile").write_text("\n".join(lines))

    discovery = discover(SourceRequest(operator_directory=tmp_path))

    assert len(discovery.hosts.entries) == 4
    assert discovery.numeric_order
    assert discovery.hosts.source == str(tmp_path / "hostfile")


def test_a_script_alone_is_a_full_source(tmp_path: Path) -> None:
    """Whether or not it may be executed."""
    write_script(tmp_path, "echo pi-worker-0\necho pi-worker-1", mode=0o444)

    discovery = discover(SourceRequest(operator_directory=tmp_path))

    assert [entry.name for entry in discovery.hosts.entries] == ["pi-worker-0", "pi-worker-1"]


def test_a_script_is_asked_again_until_it_lists_every_worker(tmp_path: Path) -> None:
    """The operator lists a worker when its pod runs."""
    counter = tmp_path / "asked"
    write_script(
        tmp_path / "mpi",
        f"echo x >> {counter}\necho pi-worker-0\n"
        f"[ $(wc -l < {counter}) -lt 3 ] || echo pi-worker-1",
    )

    discovery = discover(
        SourceRequest(operator_directory=tmp_path / "mpi", expected=2, timeout_s=30)
    )

    assert len(discovery.hosts.entries) == 2
    assert len(counter.read_text().splitlines()) == 3


def test_a_script_that_never_lists_enough_ends_at_the_deadline(tmp_path: Path) -> None:
    """With the code that says a retry may help."""
    write_script(tmp_path, "echo pi-worker-0")

    with pytest.raises(HostsNotReadyError, match="lists 1") as caught:
        discover(SourceRequest(operator_directory=tmp_path, expected=2, timeout_s=1.5))

    assert caught.value.exit_code == 200


def test_strangers_in_a_hostfile_are_an_error_and_in_a_script_are_left_out(
    tmp_path: Path,
) -> None:
    """Two jobs of one name in two namespaces have seen each other's workers."""
    stranger = "pi-worker-0.pi.other.svc"
    write_script(tmp_path, f"echo {stranger}\necho pi-worker-0.pi.default.svc")
    discovery = discover(SourceRequest(operator_directory=tmp_path))
    (tmp_path / "hostfile").write_text(f"{stranger} slots=1\n")

    with pytest.raises(HostSourceInvalidError, match=stranger):
        discover(SourceRequest(operator_directory=tmp_path))

    assert [entry.name for entry in discovery.hosts.entries] == ["pi-worker-0.pi.default.svc"]
    assert any(stranger in note for note in discovery.hosts.notes)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo something is wrong >&2; exit 3", "it ended with code 3"),
        ("echo 'Loading [ok] ...'", "line 1"),
        ("kill -9 $$", "it ended with code -9"),
    ],
)
def test_a_script_that_does_not_work_is_named(tmp_path: Path, body: str, said: str) -> None:
    """With its own words where it said any."""
    script = write_script(tmp_path, body)

    with pytest.raises(HostSourceInvalidError) as caught:
        discover(SourceRequest(operator_directory=tmp_path))

    assert said in caught.value.summary
    assert str(script) in caught.value.summary
    assert caught.value.exit_code == 65


def test_a_script_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """A pipe that a grandchild holds open must not hold us."""
    script = write_script(tmp_path, "sleep 600 &\nsleep 600")
    started_at_s = time.monotonic()

    with pytest.raises(HostSourceInvalidError, match="did not end within"):
        asyncio.run(run_discover_script(script, limit_s=0.3))

    assert time.monotonic() - started_at_s < 30


@pytest.mark.parametrize(
    ("files", "kind", "code", "said"),
    [
        ((), HostSourceMissingError, 66, "neither a hostfile nor discover_hosts.sh"),
        (("kubexec.sh",), HostSourceMissingError, 66, "kubeflow.org/v1"),
    ],
)
def test_a_directory_without_a_source_is_explained(
    tmp_path: Path, files: tuple[str, ...], kind: type[MpiAgentError], code: int, said: str
) -> None:
    """What is there tells which manifest was written."""
    for name in files:
        (tmp_path / name).write_text("#!/bin/sh\n")

    with pytest.raises(kind, match=said) as caught:
        discover(SourceRequest(operator_directory=tmp_path))

    assert caught.value.exit_code == code


def test_no_directory_at_all_names_the_first_container(tmp_path: Path) -> None:
    """The operator patches only the pod's first container."""
    with pytest.raises(HostSourceMissingError) as caught:
        discover(SourceRequest(operator_directory=tmp_path / "mpi"))

    assert "first container" in caught.value.hint


def test_twelve_workers_from_a_script_in_text_order_get_ranks_in_numeric_order(
    tmp_path: Path,
) -> None:
    """Worker-10 is listed before worker-2, as the operator's script lists it."""
    names = sorted(f"pi-worker-{index}.pi.default.svc" for index in range(12))
    assert names[2].startswith("pi-worker-10")
    write_script(tmp_path, "\n".join(f"echo {name}" for name in names))

    discovery = discover(SourceRequest(operator_directory=tmp_path, expected=12, timeout_s=5))
    hosts = to_host_list(
        discovery.hosts,
        slots=DefaultSlots(count=2, origin="--slots"),
        own=OwnNames(host_name="pi-launcher", names=(), addresses=()),
        numeric_order=discovery.numeric_order,
    )

    assert render_hostfile(hosts, HostfileForm.SLOTS).splitlines() == [
        f"pi-worker-{index}.pi.default.svc slots=2" for index in range(12)
    ]
