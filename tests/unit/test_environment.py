"""Which variables travel, and why."""

from __future__ import annotations

import pytest

from mpi_agent.environment import is_never_passed, rank_environment, session_variables

LAUNCHER = {
    "HOSTNAME": "pi-launcher",
    "HOME": "/root",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "PI_PORT_2222_TCP_ADDR": "10.0.0.2",
    "K_MPI_JOB_ROLE": "launcher",
    "NVIDIA_VISIBLE_DEVICES": "",
    "CUDA_VISIBLE_DEVICES": "",
    "OMPI_MCA_plm_rsh_args": "-v",
    "SLURM_JOBID": "1",
    "PATH": "/usr/bin",
    "LD_LIBRARY_PATH": "/opt/lib",
    "NCCL_DEBUG": "INFO",
    "CUDA_LAUNCH_BLOCKING": "1",
    "PYTHONPATH": "/app",
    "MASTER_PORT": "29500",
    "MY_SETTING": "1",
}


def test_only_what_is_meant_for_ranks_travels() -> None:
    """The launcher's own identity stays at home, and so do devices that the operator blanks."""
    assert rank_environment(LAUNCHER).names == (
        "CUDA_LAUNCH_BLOCKING",
        "MASTER_PORT",
        "NCCL_DEBUG",
        "PYTHONPATH",
    )


def test_paths_travel_only_to_workers_without_the_agent() -> None:
    """A worker that runs the agent gives its ranks its own paths."""
    assert "PATH" in rank_environment(LAUNCHER, workers_run_agent=False).names
    assert "PATH" not in rank_environment(LAUNCHER).names


def test_the_user_decides_in_both_directions() -> None:
    """--env wins over the never-list, --no-env over the allow list."""
    environment = rank_environment(
        LAUNCHER, wanted=("MY_SETTING", "HOME", "NEW=a=b"), unwanted=("NCCL_DEBUG",)
    )

    assert {"MY_SETTING", "HOME", "NEW"} <= set(environment.names)
    assert "NCCL_DEBUG" not in environment.names
    assert environment.extra == (("NEW", "a=b"),)


def test_every_variable_has_a_fate_and_a_reason() -> None:
    """`plan` can explain each."""
    passages = rank_environment(LAUNCHER).passages

    assert {p.name for p in passages} == set(LAUNCHER)
    assert all(p.reason for p in passages)


@pytest.mark.parametrize("item", ["NOT_SET", "1A=2", "=x"])
def test_a_variable_that_cannot_be_passed_is_refused_by_name(item: str) -> None:
    """Rather than dropped."""
    with pytest.raises(ValueError, match=r"not set here|no name"):
        rank_environment(LAUNCHER, wanted=(item,))


@pytest.mark.parametrize(
    "name", ["BASH_FUNC_module%%", "SSH_CONNECTION", "PMIX_RANK", "MY_SVC_SERVICE_PORT_HTTP"]
)
def test_session_and_pod_names_are_never_passed(name: str) -> None:
    """Whatever their prefix."""
    assert is_never_passed(name)


def test_a_workers_own_variables_reach_its_sessions() -> None:
    """Devices, paths and node names are the worker's to tell."""
    session = session_variables(
        {"PATH": "/x", "NVIDIA_VISIBLE_DEVICES": "0", "NODE_NAME": "n", "HOME": "/h", "_": "y"}
    )

    assert dict(session.variables) == {
        "PATH": "/x",
        "NVIDIA_VISIBLE_DEVICES": "0",
        "NODE_NAME": "n",
    }


def test_what_a_session_cannot_carry_is_named() -> None:
    """A value with a line break would end the line of sshd_config."""
    session = session_variables({"A": "x\ny", "B": "ok"})

    assert session.variables == (("B", "ok"),)
    assert session.left_out == ("A: its value has a line break",)
