"""What a launcher that hands its whole environment over is started without."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.environment import rank_environment
from mpi_agent.job.hosts import HostList
from tests.builders import a_host, a_host_list, a_launch_request

POD = {
    "HOSTNAME": "horovod-launcher",
    "K_MPI_JOB_ROLE": "launcher",
    "POD_NAME": "horovod-launcher-x",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}
DEVICES = {
    "NVIDIA_VISIBLE_DEVICES": "",
    "CUDA_VISIBLE_DEVICES": "",
    "NVIDIA_DRIVER_CAPABILITIES": "",
}
OF_THE_JOB = {
    "NCCL_DEBUG": "INFO",
    "HOROVOD_CYCLE_TIME": "1",
    "PATH": "/usr/bin",
    "HOME": "/root",
    "DB_PORT": "5432",
    "SHELL": "/bin/bash",
}


def plan_of(
    line: str,
    environ: Mapping[str, str],
    *,
    hosts: HostList | None = None,
    wanted: tuple[str, ...] = (),
    unwanted: tuple[str, ...] = (),
) -> LaunchPlan:
    """Return the plan of a line, on two workers unless other hosts are given."""
    request = a_launch_request(*shlex.split(line), environ=environ)
    given = rank_environment(environ, wanted=wanted, unwanted=unwanted)
    return build_plan(replace(request, environment=given), hosts or a_host_list(), None)


def removed(plan: LaunchPlan) -> set[str]:
    """Return what the launcher is started without."""
    return {variable.name for variable in plan.removed_variables}


@pytest.mark.parametrize(
    "line", ["horovodrun x", "python -m horovod.runner x", "horovodrun --mpi x"]
)
def test_horovodrun_does_not_find_what_names_this_pod(line: str) -> None:
    """It would tell every rank that it is the launcher, and that it has no devices."""
    plan = plan_of(line, {**POD, **DEVICES, **OF_THE_JOB})

    assert removed(plan) == POD.keys() | DEVICES.keys()


def test_a_launcher_that_is_a_worker_keeps_its_devices() -> None:
    """Ranks here need them."""
    hosts = HostList(hosts=(a_host(0, is_local=True), a_host(1)), source="test")

    plan = plan_of("horovodrun x", {**POD, **DEVICES}, hosts=hosts)

    assert removed(plan) == POD.keys()


def test_what_is_asked_for_by_name_is_handed_over() -> None:
    """The user wins."""
    plan = plan_of("horovodrun x", POD, wanted=("POD_NAME",))

    assert removed(plan) == POD.keys() - {"POD_NAME"}


def test_what_is_kept_back_by_name_is_not_there() -> None:
    """Else --no-env would mean nothing to such a launcher."""
    plan = plan_of("horovodrun x", OF_THE_JOB, unwanted=("DB_*",))

    assert removed(plan) == {"DB_PORT"}


@pytest.mark.parametrize("line", ["deepspeed x", "bash run.sh", "torchrun x"])
def test_other_launchers_keep_their_environment(line: str) -> None:
    """A script may ask the API server, or its own name."""
    assert removed(plan_of(line, {**POD, **DEVICES})) == set()


@pytest.mark.parametrize(
    "line",
    [
        "horovodrun --gloo x",
        "horovodrun --gloo python3 x --mpi",
        "horovodrun --gloo ./x --mpi",
        "horovodrun -np 2 ./x --mpi",
        "horovodrun -p22 ./x --mpi",
        "python -m horovod.runner --verbose -- ./x --mpi",
    ],
)
def test_secrets_that_horovodrun_would_write_on_lines_are_named(line: str) -> None:
    """Those kept back are not; and what the program is told is nothing to horovodrun."""
    environ = {"HF_TOKEN": "t", "DB_PASSWORD": "p", "NCCL_DEBUG": "INFO"}

    notes = plan_of(line, environ, unwanted=("DB_PASSWORD",)).notes

    assert [note for note in notes if "command lines" in note] == [
        "horovodrun without MPI writes the values of HF_TOKEN on its ssh command lines; "
        "keep them back with --no-env, or start the program with mpirun"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "horovodrun --mpi x",
        "horovodrun -np 2 --verbose --mpi x",
        "python -m horovod.runner --log-level INFO --mpi x",
        "deepspeed x",
        "horovodrun y",
    ],
)
def test_where_no_secret_is_written_none_is_named(line: str) -> None:
    """An mpirun gets names; and without a secret there is nothing to say."""
    environ = {} if line.endswith("y") else {"HF_TOKEN": "t"}

    assert not [note for note in plan_of(line, environ).notes if "command lines" in note]
