"""Which variables travel, and why."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.env_file import FileVariable
from mpi_agent.environment import (
    RankEnvironment,
    VariableError,
    interface_variables,
    is_never_passed,
    is_secret,
    rank_environment,
    session_variables,
)
from mpi_agent.variable_names import RESOURCE_MANAGER_PREFIXES, reason_to_refuse

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
NAMES = st.one_of(
    st.sampled_from([*LAUNCHER, "MY_TOKEN", "NCCL_KEY", "PMIX_RANK", "BASH_FUNC_f%%"]),
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True),
)
VALUES = st.binary(max_size=30).map(lambda raw: "«" + os.fsdecode(raw.replace(b"\0", b"")) + "»")
"""Whatever the kernel can hold, and nothing that stands in a message by itself."""


def from_file(name: str, value: str | None, line: int = 1) -> FileVariable:
    """Return what a line of an env file says."""
    return FileVariable(name=name, value=value, place=f'"job.env", line {line}')


def can_be_asked_for(name: str) -> bool:
    """Return whether --env takes a name."""
    return "%" not in name and reason_to_refuse(name) is None


def reason(environment: RankEnvironment, name: str) -> str:
    """Return why a variable travels or stays."""
    return next(p.reason for p in environment.passages if p.name == name)


def test_only_what_is_meant_for_ranks_travels() -> None:
    """The launcher's own identity stays at home, and so do devices that the operator blanks."""
    assert rank_environment(LAUNCHER).names == (
        "CUDA_LAUNCH_BLOCKING",
        "MASTER_PORT",
        "NCCL_DEBUG",
        "PYTHONPATH",
    )


@pytest.mark.parametrize(
    "name",
    (
        "I_MPI_DEBUG MPIR_CVAR_CH4_NETMOD MPICH_ASYNC_PROGRESS FI_PROVIDER UCX_TLS"
        " NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME"
    ).split(),
)
def test_what_configures_a_library_in_the_ranks_travels(name: str) -> None:
    """Of every MPI and transport."""
    assert rank_environment({name: "x"}).names == (name,)


@pytest.mark.parametrize(
    "name",
    (
        "I_MPI_HYDRA_BOOTSTRAP I_MPI_PERHOST HYDRA_HOST_FILE MPIEXEC_TIMEOUT OMPI_MCA_btl"
        " PRTE_MCA_plm_ssh_args PMIX_MCA_gds MPI_AGENT_NP BASH_FUNC_module%% SSH_CONNECTION"
        " PMIX_RANK MY_SVC_SERVICE_PORT_HTTP HOME REDIS_PORT NVIDIA_VISIBLE_DEVICES"
    ).split(),
)
def test_names_of_a_launcher_a_session_or_a_pod_stay(name: str) -> None:
    """Whatever their prefix, and --env-prefix does not take them along either."""
    prefix = name[:2]

    assert is_never_passed(name)
    assert rank_environment({name: "x"}, prefixes=(prefix,)).names == ()


def test_names_for_the_programs_meeting_point_are_no_service() -> None:
    """MASTER_PORT ends like a variable that Kubernetes sets."""
    environ = {"MASTER_ADDR": "a", "MASTER_PORT": "1", "WORLD_SIZE": "2"}

    assert not any(is_never_passed(name) for name in environ)
    assert rank_environment(environ).names == tuple(sorted(environ))


def test_mca_parameters_stay_and_the_reason_says_who_carries_them() -> None:
    """So that nobody wonders in `plan --environment`."""
    environment = rank_environment({"OMPI_MCA_btl": "tcp,self"})

    assert "mpirun carries those that it knows" in reason(environment, "OMPI_MCA_btl")


def test_paths_travel_only_to_workers_without_the_agent() -> None:
    """A worker that runs the agent gives its ranks its own paths."""
    assert "PATH" in rank_environment(LAUNCHER, workers_run_agent=False).names
    assert "PATH" not in rank_environment(LAUNCHER).names


def test_the_user_decides_in_both_directions() -> None:
    """--env wins over the never-list, --no-env over the allow list."""
    environment = rank_environment(
        LAUNCHER, wanted=("MY_SETTING", "HOME", "NEW=a=b"), unwanted=("NCCL_DEBUG", "PYTHON*")
    )

    assert {"MY_SETTING", "HOME", "NEW"} <= set(environment.names)
    assert not {"NCCL_DEBUG", "PYTHONPATH"} & set(environment.names)
    assert environment.extra == (("NEW", "a=b"),)
    assert environment.keeps_back("PYTHONHASHSEED")


def test_home_travels_only_by_its_very_name_and_with_a_note() -> None:
    """Programs of another account write where they may not."""
    asked = rank_environment(LAUNCHER, wanted=("HOME",))

    assert "HOME" in asked.names
    assert any(note.startswith("HOME travels as asked") for note in asked.notes)
    assert "HOME" not in rank_environment(LAUNCHER, prefixes=("*",)).names


def test_the_command_line_beats_a_file_and_a_file_the_environment() -> None:
    """A later file beats an earlier one."""
    files = (from_file("A", "file"), from_file("B", "old"), from_file("B", "new", 2))
    environment = rank_environment({"A": "here"}, from_files=files, wanted=("A=flag", "A=last"))

    assert dict(environment.extra) == {"A": "last", "B": "new"}
    assert reason(environment, "B") == 'asked for in "job.env", line 2'


def test_a_name_without_a_value_takes_the_environments_else_the_files() -> None:
    """`--env NAME` says which, not what."""
    files = (from_file("A", "file"), from_file("B", "file"))

    environment = rank_environment({"A": "here"}, from_files=files, wanted=("A", "B"))

    assert environment.extra == (("B", "file"),)
    assert {"A", "B"} <= set(environment.names)


def test_a_files_variable_can_be_kept_back() -> None:
    """The command line has the last word, and even a refused name is no error then."""
    files = (from_file("A", "1"), from_file("PMIX_RANK", "1"))

    environment = rank_environment({}, from_files=files, unwanted=("A", "PMIX_*"))

    assert (environment.names, environment.extra) == ((), ())
    assert reason(environment, "A") == "kept back with --no-env"


def test_a_prefix_takes_along_what_is_set_and_tells_what_it_could_not() -> None:
    """Nothing that was asked for stays in silence."""
    environ = {"APP_MODE": "x", "APP_PORT": "tcp://10.0.0.1:80", "APP_X": "y"}
    environment = rank_environment(environ, prefixes=("APP_", "NO_*"), unwanted=("APP_X",))

    assert environment.names == ("APP_MODE",)
    assert len(environment.notes) == 2
    assert environment.notes[0].startswith("APP_PORT stays in spite of --env-prefix APP_")
    assert environment.notes[1] == "--env-prefix NO_ fits no variable that is set here"


@given(
    environ=st.dictionaries(NAMES, VALUES, max_size=5),
    given_names=st.lists(
        NAMES.filter(lambda n: "%" not in n and not reason_to_refuse(n)), max_size=2
    ),
    prefixes=st.lists(st.from_regex(r"[A-Z_]{1,3}\*?", fullmatch=True), max_size=2),
    unwanted=st.lists(NAMES, max_size=2),
    value=VALUES,
    workers_run_agent=st.booleans(),
)
def test_every_variable_has_one_fate_and_no_value_is_told(
    environ: dict[str, str],
    given_names: list[str],
    prefixes: list[str],
    unwanted: list[str],
    value: str,
    workers_run_agent: bool,
) -> None:
    """Whatever was asked for, and whatever bytes the values are."""
    environment = rank_environment(
        environ,
        wanted=tuple(f"{name}={value}" for name in given_names),
        prefixes=tuple(prefixes),
        unwanted=tuple(unwanted),
        workers_run_agent=workers_run_agent,
    )

    names = [p.name for p in environment.passages]
    told = "\n".join((*environment.notes, *(p.reason for p in environment.passages)))
    assert names == sorted({*environ, *given_names})
    assert all(p.reason for p in environment.passages)
    assert dict(environment.extra) == dict.fromkeys(given_names, value)
    assert not any(text in told for text in (value, *environ.values()))


@pytest.mark.parametrize("value", ["a\nb", "'\"", "a;b|c&$d", "ü→", "\udcff\udcfe", "", " x ", "="])
def test_any_text_can_be_a_value(value: str) -> None:
    """Measured with every launcher: blanks, quotes, line breaks and other bytes arrive as sent."""
    environment = rank_environment({"NCCL_X": value}, wanted=(f"B={value}",), limit_bytes=100_000)

    assert environment.names == ("B", "NCCL_X")
    assert environment.extra == (("B", value),)


@pytest.mark.parametrize("item", ["NOT_SET", "1A=2", "=x", "A B=1", "NCCL_*"])
def test_a_variable_that_cannot_be_passed_is_refused_by_name(item: str) -> None:
    """Rather than dropped."""
    with pytest.raises(VariableError, match=r"not set here|no name"):
        rank_environment(LAUNCHER, wanted=(item,))


@pytest.mark.parametrize(
    "name",
    (
        "OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK PRTE_MCA_x HYDRA_TOPO_DEBUG MPI_AGENT_TIMEOUT"
    ).split(),
)
def test_a_name_that_launchers_replace_is_refused_even_to_the_user(name: str) -> None:
    """From the command line and from a file, and the value is not told."""
    with pytest.raises(VariableError, match=f"variable {name} is ") as by_flag:
        rank_environment({}, wanted=(f"{name}=s3cret",))
    with pytest.raises(VariableError, match=r"\(\"job.env\", line 7\)") as by_file:
        rank_environment({}, from_files=(from_file(name, "s3cret", 7),))

    assert "s3cret" not in f"{by_flag.value}{by_file.value}"


def test_a_value_with_nul_is_refused() -> None:
    """Only a file can hold one."""
    with pytest.raises(VariableError, match=r"variable A .* has a NUL byte"):
        rank_environment({}, from_files=(from_file("A", "x\0y"),))


def test_a_value_that_linux_does_not_take_is_refused_with_its_size() -> None:
    """131,071 bytes of NAME=VALUE are the most; execve itself is asked."""
    fits, too_long = "A=" + "x" * 131_069, "A=" + "é" * 65_535

    assert rank_environment({}, wanted=(fits,)).names == ("A",)
    assert subprocess.run(["true"], env={"A": fits[2:]}, check=True).returncode == 0
    with pytest.raises(VariableError, match="variable A has 131072 bytes with its name"):
        rank_environment({}, wanted=(too_long,))
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true"], env={"A": too_long[2:]}, check=True)


def test_more_than_the_kernel_takes_in_all_is_refused_with_the_largest() -> None:
    """Before the wait, not as "Argument list too long" after it."""
    wanted = ("SMALL=1", *(f"V{i}=" + "x" * 100_000 for i in range(3)), "BIG=" + "x" * 120_000)

    assert rank_environment({}, wanted=wanted, limit_bytes=500_000)
    with pytest.raises(VariableError, match=r"the largest is BIG with 1200\d\d bytes"):
        rank_environment({}, wanted=wanted, limit_bytes=400_000)


@pytest.mark.parametrize("prefix", ["1A", "A B", "**", "A-"])
def test_what_no_name_starts_with_is_no_prefix(prefix: str) -> None:
    """A typing error is not a prefix that fits nothing."""
    with pytest.raises(VariableError, match="no start of a variable's name"):
        rank_environment({}, prefixes=(prefix,))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((n, True) for n in ("HF_TOKEN", "token", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")),
        *((n, True) for n in ("WANDB_API_KEY", "DB_PASSWORD", "Db_Passwd", "GITHUB_PAT")),
        *((n, True) for n in ("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_CONNECTION_STRING")),
        *((n, False) for n in ("TOKENIZERS_PARALLELISM", "PATH", "KEYBOARD", "PWD", "OLDPWD")),
    ],
)
def test_a_secret_is_known_by_its_name(name: str, secret: bool) -> None:
    """Its value may be anything."""
    assert is_secret(name) is secret


def test_a_secret_travels_by_name_and_its_passage_says_so() -> None:
    """MLFLOW_TRACKING_TOKEN is needed by the ranks, and not by those who read a plan."""
    environment = rank_environment({"MLFLOW_TRACKING_TOKEN": "x", "MLFLOW_URI": "y"})

    assert environment.names == ("MLFLOW_TRACKING_TOKEN", "MLFLOW_URI")
    assert [p.is_secret for p in environment.passages] == [True, False]
    assert "a secret by its name" in reason(environment, "MLFLOW_TRACKING_TOKEN")


def test_a_secret_whose_value_stands_on_the_command_line_gets_a_note() -> None:
    """By its name alone, or from a file, nobody can read it."""
    by_value = rank_environment({}, wanted=("MY_TOKEN=s3cret",)).notes

    assert "write --env MY_TOKEN and set the variable" in by_value[0]
    assert "s3cret" not in by_value[0]
    assert rank_environment({"MY_TOKEN": "s3cret"}, wanted=("MY_TOKEN",)).notes == ()
    assert rank_environment({}, from_files=(from_file("MY_TOKEN", "s3cret"),)).notes == ()


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


@pytest.mark.parametrize("name", ["with-dash", "1ST", "with.dot", "PPID", "SHELLOPTS"])
def test_what_a_session_cannot_carry_is_named(name: str) -> None:
    """No shell can use such a name, or every shell sets its own value."""
    session = session_variables({name: "x", "B": "ok"})

    assert session.variables == (("B", "ok"),)
    (left_out,) = session.left_out
    assert left_out.startswith(f"{name}: ")


def test_a_value_may_hold_anything() -> None:
    """Which way it takes to the session is the ssh server's matter."""
    environ = {"A": "x\ny\r\n", **{f"N{number}": "y" * 1000 for number in range(5000)}}

    session = session_variables(environ)

    assert dict(session.variables) == environ
    assert session.left_out == ()


def test_a_worker_tells_libraries_the_pods_interface() -> None:
    """Unless somebody did, be it with an empty value; UCX stays free where there is RDMA."""
    found = interface_variables({"NCCL_SOCKET_IFNAME": ""}, "eth0", has_rdma=True)
    without_rdma = interface_variables({}, "eth0", has_rdma=False)

    assert dict(found) == {"GLOO_SOCKET_IFNAME": "eth0", "FI_TCP_IFACE": "eth0"}
    assert ("UCX_NET_DEVICES", "eth0") in without_rdma
    assert interface_variables({}, None, has_rdma=False) == ()


def test_a_parameter_of_pmix_travels_when_asked_for() -> None:
    """Ranks read it, too; AWS sets `PMIX_MCA_gds=hash` for them."""
    environ = {"PMIX_MCA_gds": "hash"}

    assert rank_environment(environ).names == ()
    assert rank_environment(environ, wanted=("PMIX_MCA_gds",)).names == ("PMIX_MCA_gds",)


@pytest.mark.parametrize(
    "name",
    (
        "SLURM_JOBID PBS_NODEFILE LSB_HOSTS LSF_X SGE_ROOT PE_HOSTFILE COBALT_X LOADL_X FLUX_URI"
    ).split(),
)
def test_what_a_resource_manager_says_goes_nowhere(name: str) -> None:
    """Neither from the launcher to the ranks, nor from a worker's container to its sessions."""
    assert name.startswith(RESOURCE_MANAGER_PREFIXES)
    assert is_never_passed(name)
    assert session_variables({name: "x"}).variables == ()
