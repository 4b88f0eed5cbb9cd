"""What the container tests write in mpi-operator's and kubelet's place."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.mpi_jobs import Implementation, MpiJob, PodTemplate
from tests.e2e.operator_texts import (
    cluster_name,
    discover_hosts_text,
    hostfile_text,
    launcher_variables,
    search_list,
    service_name,
)
from tests.e2e.volumes import lay_volume

_POD = PodTemplate(argv=("true",))
_JOB = MpiJob(launcher=_POD, worker=_POD, workers=2, slots=4)


@pytest.mark.parametrize(
    ("implementation", "line"),
    [
        (Implementation.OPEN_MPI, "pi-worker-0 slots=4\n"),
        (Implementation.INTEL, "pi-worker-0:4\n"),
        (Implementation.MPICH, "pi-worker-0:4\n"),
    ],
)
def test_a_line_of_the_hostfile_has_the_implementations_form(
    implementation: Implementation, line: str
) -> None:
    """Open MPI's form, and Hydra's."""
    job = replace(_JOB, implementation=implementation)

    assert hostfile_text(job, ("pi-worker-0",)) == line


@pytest.mark.parametrize(
    ("implementation", "hostfile", "slots"),
    [
        (
            Implementation.OPEN_MPI,
            "OMPI_MCA_orte_default_hostfile",
            ["OMPI_MCA_orte_set_default_slots"],
        ),
        (Implementation.INTEL, "I_MPI_HYDRA_HOST_FILE", ["I_MPI_PERHOST"]),
        (Implementation.MPICH, "HYDRA_HOST_FILE", []),
    ],
)
def test_the_launcher_is_told_hostfile_and_slots_in_its_implementations_words(
    implementation: Implementation, hostfile: str, slots: list[str]
) -> None:
    """MPICH has no word for slots."""
    job = replace(_JOB, implementation=implementation)

    variables = launcher_variables(job)

    assert (hostfile, "/etc/mpi/hostfile") in variables
    assert [name for name, value in variables if value == "4"] == slots


@pytest.mark.parametrize(
    ("domain", "written"),
    [
        ("", "pi-worker-0.pi.default.svc"),
        ("cluster.local", "pi-worker-0.pi.default.svc.cluster.local"),
        ("example.org", "pi-worker-0.pi.default.svc.example.org"),
    ],
)
def test_a_name_as_it_is_written_leads_to_the_name_in_the_dns(domain: str, written: str) -> None:
    """As it stands, or with one of the domains that the pod looks in."""
    job = replace(_JOB, cluster_domain=domain)

    name = service_name(job, "pi", "pi-worker-0")

    assert name == written
    looked_up = {name, *(f"{name}.{domain}" for domain in search_list(job))}
    assert cluster_name(job, "pi", "pi-worker-0") in looked_up


def test_the_script_lists_hosts_in_the_order_of_their_text() -> None:
    """Worker 10 comes before worker 2, and the launcher before both."""
    names = ("pi-launcher", "pi-worker-2", "pi-worker-10")

    lines = discover_hosts_text(names).splitlines()

    assert lines == ["#!/bin/sh", *(f"echo {names[index]}" for index in (0, 2, 1))]


def test_a_launcher_that_is_a_worker_keeps_its_gpus() -> None:
    """Any other launcher's container is made blind to them."""
    as_worker = replace(_JOB, launcher_is_worker=True)

    assert ("NVIDIA_VISIBLE_DEVICES", "") in launcher_variables(_JOB)
    assert "NVIDIA_VISIBLE_DEVICES" not in dict(launcher_variables(as_worker))


def test_an_fs_group_may_read_the_files_and_enter_the_directories(tmp_path: Path) -> None:
    """It gets what it lacks, and nobody loses anything."""
    lay_volume(tmp_path, {"id_rsa": b"key"}, 0o600, os.getgid())

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, *tmp_path.iterdir())}
    assert modes.pop(tmp_path / "id_rsa") == 0o640
    assert modes.pop(tmp_path) == 0o3777
    assert set(modes.values()) == {0o2755}


def test_without_an_fs_group_the_keys_are_as_the_operator_has_them(tmp_path: Path) -> None:
    """Secret volumes are of mode 1777."""
    lay_volume(tmp_path, {"id_rsa": b"key"}, 0o600)

    assert stat.S_IMODE((tmp_path / "id_rsa").stat().st_mode) == 0o600
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_a_group_without_a_user_is_refused() -> None:
    """What becomes of it depends on the image's own user."""
    with pytest.raises(ValueError, match="runAsGroup 2000"):
        PodTemplate(argv=("true",), gid=2000)
