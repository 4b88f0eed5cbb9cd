"""What the environment of a rank holds, under every MPI: byte for byte, and nothing that must not.

Each launch is real; the ranks tell every variable they have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.farm import Farm, FarmOptions, Server
from tests.farm_launch import (
    ALL_STACKS,
    Launched,
    agent_words,
    farm_of,
    launch,
    launcher_environ,
    running_launch,
    spread_of,
)
from tests.stacks import require_stack

pytestmark = pytest.mark.integration

LONGEST_BYTES = 131_000
"""Of NAME=VALUE: what every MPI was measured to carry; the kernel takes 71 bytes more."""

NASTY = {
    "NASTY_NEWLINE": b"two\nlines\n",
    "NASTY_QUOTES": b"""'single' "double" `back`""",
    "NASTY_SEMICOLON": b"a;b|c&d<e>f*g$(h)${i}!j",
    "NASTY_BACKSLASH": b"\\n \\\\ \\",
    "NASTY_UNICODE": "Grüße, 世界 \U0001f30d".encode(),
    "NASTY_BYTES": bytes(range(1, 256)),
    "NASTY_EMPTY": b"",
    "NASTY_BLANKS": b"  blanks at the ends\t ",
    "NASTY_EQUALS": b"=a=b==",
    "NASTY_COMMA": b",a,,b,",
    "NASTY_PERCENT": b"%d %s %n %%h",
    "NASTY_LONG": b"x" * (LONGEST_BYTES - len(b"NASTY_LONG=")),
}
MANY = {f"MANY_{number:04}": f"value {number}".encode() for number in range(5000)}

OF_THE_LAUNCHER = "of-the-launcher-alone"
NEVER = (
    *("HOSTNAME", "K_MPI_JOB_ROLE", "POD_NAME", "NODE_NAME", "JOB_COMPLETION_INDEX"),
    *("KUBERNETES_SERVICE_HOST", "KUBERNETES_PORT", "REDIS_SERVICE_HOST", "REDIS_PORT_6379_TCP"),
    *("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("SLURM_JOB_ID", "SLURM_NODELIST", "PBS_JOBID", "LSB_JOBID"),
    *("SSH_AUTH_SOCK", "SSH_ORIGINAL_COMMAND", "SSH_CONNECTION", "SSH_CLIENT"),
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "HYDRA_HOST_FILE", "PRTE_LAUNCHED"),
    *("HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TERM", "TMPDIR", "SHLVL"),
    *("BASH_FUNC_module%%", "SOME_WORD_OF_THE_IMAGE"),
)
"""Set on the launcher to a value that must be nowhere else, and asked for by nobody."""

SECRET, SECRET_ON_THE_LINE = "hunter2-of-the-environment", "hunter2-of-the-line"


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide three workers that run the agent, in images with directories of their own."""
    own = {"PATH": f"{os.environ['PATH']}:/workers/bin", "LD_LIBRARY_PATH": "/workers/lib"}
    options = FarmOptions(server=Server.AGENT, session_variables=own)
    with farm_of(options=options) as running:
        yield running


def assert_all_ranks_have(ended: Launched, wanted: dict[str, bytes]) -> None:
    """Assert that six ranks have these variables, naming only those that differ."""
    assert (ended.code, len(ended.ranks)) == (0, 6), ended.said
    for rank in ended.ranks:
        differ = {n for n, value in wanted.items() if rank.variable(n) != value}
        assert not differ, f"rank {rank.number}"


@ALL_STACKS
def test_variables_arrive_byte_for_byte(farm: Farm, name: str) -> None:
    """Values that shells, launchers and lists would split, cut or quote; 5,000 more beside them."""
    given = {**NASTY, **MANY}
    environ = {n: os.fsdecode(value) for n, value in given.items()}
    asked = tuple(word for n in NASTY for word in ("--env", n))

    ended = launch(
        farm,
        require_stack(name),
        options=(*asked, "--env-prefix", "MANY_"),
        environ=launcher_environ(**environ),
    )

    assert_all_ranks_have(ended, given)


@ALL_STACKS
def test_values_written_behind_env_arrive_byte_for_byte(farm: Farm, name: str) -> None:
    """`--env NAME=VALUE`, with everything but the longest."""
    given = {n: value for n, value in NASTY.items() if n != "NASTY_LONG"}
    words = tuple(
        word for n, value in given.items() for word in ("--env", f"{n}={os.fsdecode(value)}")
    )

    ended = launch(farm, require_stack(name), options=words)

    assert_all_ranks_have(ended, given)


@ALL_STACKS
def test_what_names_the_launcher_stays_there(farm: Farm, name: str) -> None:
    """Hydra would hand all of it over; each host has its own names, devices and sessions."""
    mpi = require_stack(name)
    environ = dict.fromkeys(NEVER, OF_THE_LAUNCHER)
    unusable = {"SHLVL": "7", "PMI_RANK": "77", "OMPI_COMM_WORLD_RANK": "77", "PMIX_RANK": "77"}

    ended = launch(farm, mpi, environ=launcher_environ(**{**environ, **unusable}))

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm), ended.said
    for rank in ended.ranks:
        marked = {n for n, value in rank.environ.items() if OF_THE_LAUNCHER.encode() in value}
        assert not marked
        assert b"77" not in rank.environ.values()


@ALL_STACKS
def test_home_and_paths_are_the_workers_own(farm: Farm, name: str) -> None:
    """A worker's image may have its programs and libraries elsewhere."""
    environ = launcher_environ(
        HOME="/launcher/home",
        PATH=f"{os.environ['PATH']}:/launcher/bin",
        LD_LIBRARY_PATH="/launcher/lib",
    )

    ended = launch(farm, require_stack(name), environ=environ)

    assert ended.code == 0, ended.said
    for rank in ended.ranks:
        assert rank.variable("HOME") == b"/root"
        for variable in ("PATH", "LD_LIBRARY_PATH"):
            directories = (rank.variable(variable) or b"").split(b":")
            own = b"/workers/bin" if variable == "PATH" else b"/workers/lib"
            assert own in directories, rank.variable(variable)
            assert not [d for d in directories if d.startswith(b"/launcher")]


@ALL_STACKS
def test_secrets_are_never_in_a_process_list(farm: Farm, name: str) -> None:
    """Neither on the launcher nor on a worker, nor in the log; what is on the line moves off it."""
    mpi = require_stack(name)
    line = ("mpirun", "-x", f"DB_PASSWORD={SECRET_ON_THE_LINE}")
    environ = launcher_environ(API_TOKEN=SECRET)

    with running_launch(
        farm, mpi, options=("--env", "API_TOKEN"), line=line, environ=environ
    ) as run:
        shown = {
            process.pid: Path(f"/proc/{process.pid}/cmdline").read_bytes()
            for host in (farm.launcher, *farm.workers)
            for process in host.processes()
        }
        written_by_the_user = shown.pop(run.popen.pid)
        ended = run.end()

    everything = b"\n".join(shown.values())
    assert everything.count(b"farm_rank.py") >= 6  # it is the processes of the job that were seen
    assert SECRET_ON_THE_LINE.encode() in written_by_the_user
    for secret in (SECRET, SECRET_ON_THE_LINE):
        assert secret.encode() not in everything
        assert secret not in ended.said
    own = {"API_TOKEN": SECRET.encode(), "DB_PASSWORD": SECRET_ON_THE_LINE.encode()}
    assert_all_ranks_have(ended, own)


def test_a_value_that_is_too_long_is_refused_by_its_name(farm: Farm) -> None:
    """The kernel would refuse the MPI's start without saying which variable it was."""
    mpi = require_stack("openmpi4")
    long = ("env", f"EMBEDDED={'x' * (131_072 - len('EMBEDDED='))}")
    given = farm.root / "given.env"
    given.write_text(f"{long[1]}\n")

    ended = farm.launcher.run(
        *agent_words(farm, mpi, "--env-file", str(given)), "true", environ=launcher_environ()
    )

    assert ended.returncode == 78
    assert "EMBEDDED" in ended.stderr
    assert "131072 bytes" in ended.stderr
    assert "xxxx" not in ended.stderr
    assert "hint: put its value into a file" in ended.stderr


def test_variables_that_are_too_many_bytes_are_refused_by_the_largest(farm: Farm) -> None:
    """All of them must fit the memory that the kernel gives to arguments and environment."""
    many = {f"BULK_{number:03}": "y" * 100_000 for number in range(30)}
    given = farm.root / "bulk.env"
    given.write_text("".join(f"{n}={value}\n" for n, value in many.items()))

    ended = farm.launcher.run(
        *agent_words(farm, require_stack("openmpi4"), "--env-file", str(given)),
        "true",
        environ=launcher_environ(),
    )

    assert ended.returncode == 78
    assert "all variables together have" in ended.stderr
    assert "BULK_" in ended.stderr
    assert "yyyy" not in ended.stderr
