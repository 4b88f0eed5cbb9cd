"""`mpi-agent plan`, `hosts` and `hostfile`: what they print, and that a script does as launch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

DUMP = """#!/bin/sh
case "$1" in --version) echo "mpirun (Open MPI) {version}"; exit 0 ;; esac
printf 'argv0=%s\\n' "$(basename "$0")" >"$DUMP_TO"
for word in "$@"; do printf 'word=%s\\n' "$word" >>"$DUMP_TO"; done
env -0 | sort -z | grep -zv -e '^_=' -e '^SHLVL=' -e '^PWD=' -e '^OLDPWD=' -e '^DUMP_TO=' \\
    | tr '\\0' '|' >>"$DUMP_TO"
cat "$HOSTFILE_IS" >>"$DUMP_TO"
"""


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run an agent as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "mpi_agent", *words],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.fixture
def mpirun(tmp_path: Path) -> Path:
    """Provide a program that calls itself an mpirun and writes down how it was started."""
    path = tmp_path / "some bin" / "mpirun"
    path.parent.mkdir()
    path.write_text(DUMP.replace("{version}", "5.0.7"))
    path.chmod(0o755)
    return path


def test_the_script_starts_what_launch_starts(tmp_path: Path, mpirun: Path) -> None:
    """Same argv, same environment, same hostfile; whatever bytes and quotes there are."""
    state = tmp_path / "state"
    environ = {
        "HOSTFILE_IS": str(state / "hostfile"),
        "DUMP_TO": str(tmp_path / "by-launch"),
        "PATH": f"{mpirun.parent}:{os.environ['PATH']}",
        "NCCL_DEBUG": "it's\n$x",
        "PRTE_MCA_prte_set_default_slots": "2",
        "SLURM_JOBID": "1",
        "MY_TOKEN": "s3cret",
    }
    job = ("--hosts", "localhost:2", "--mpi", str(mpirun), "--state-dir", str(state))
    words = ("--env", "MY_TOKEN", "--", "true", "a b", "it's", os.fsdecode(b"\xff\xfe"), "$(id)")

    planned = run("plan", *job, "--output", "shell", *words, **environ)
    launched = run("launch", "--exec", *job, *words, **environ)
    (state / "hostfile").unlink()
    script = tmp_path / "script.sh"
    script.write_bytes(planned.stdout)
    environ["DUMP_TO"] = str(tmp_path / "by-script")
    ran = subprocess.run(
        ["sh", str(script)], env={**os.environ, **environ}, capture_output=True, check=False
    )

    codes = (planned.returncode, launched.returncode, ran.returncode)
    assert codes == (0, 0, 0), planned.stderr + launched.stderr + ran.stderr
    by_launch, by_script = (tmp_path / name for name in ("by-launch", "by-script"))
    assert by_script.read_bytes() == by_launch.read_bytes()
    assert b"s3cret" not in planned.stdout


def test_a_script_without_its_secret_says_which_to_set(tmp_path: Path, mpirun: Path) -> None:
    """By name, before anything runs."""
    words = ("--hosts", "localhost", "--mpi", str(mpirun), "--state-dir", str(tmp_path / "state"))
    secret = ("--env", "MY_TOKEN=s3cret", "--output", "shell", "--", "./x")
    script = run("plan", *words, *secret).stdout

    ended = subprocess.run(["sh"], input=script, capture_output=True, check=False)

    assert b"s3cret" not in script
    assert ended.returncode != 0
    assert b"set MY_TOKEN first" in ended.stderr


def test_json_is_one_object_on_stdout(tmp_path: Path, mpirun: Path) -> None:
    """The log goes to stderr."""
    words = ("--hosts", "a:2,b:2", "--mpi", str(mpirun), "--state-dir", str(tmp_path / "state"))
    ended = run("plan", *words, "--output", "json", "--", "./x", NCCL_DEBUG="s3cret")

    plan = json.loads(ended.stdout)
    fates = {v["name"]: v["travels"] for v in plan["environment"]}
    assert plan["hostfile"]["text"] == "a slots=2\nb slots=2\n"
    assert (fates["NCCL_DEBUG"], fates["PATH"]) == (True, False)
    assert b"s3cret" not in ended.stdout + ended.stderr


def test_a_table_tells_the_fate_of_every_variable(tmp_path: Path, mpirun: Path) -> None:
    """Without values."""
    words = ("--hosts", "a", "--mpi", str(mpirun), "--state-dir", str(tmp_path / "state"))
    ended = run("plan", *words, "--environment", "--", "./x", NCCL_DEBUG="s3cret", MINE="s3cret")

    rows = ended.stdout.decode().splitlines()
    assert any(row.split()[:4] == ["NCCL_DEBUG", "to", "the", "ranks"] for row in rows)
    assert any(row.split()[:2] == ["MINE", "stays"] for row in rows)
    assert b"s3cret" not in ended.stdout


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("auto", "a slots=2\nfd00::7 slots=1\n"),
        ("openmpi", "a slots=2\nfd00::7 slots=1\n"),
        ("mpich", "a:2\n[fd00::7]:1\n"),
        ("intel", "a:2\n[fd00::7]:1\n"),
    ],
)
def test_a_hostfile_is_printed_in_the_words_of_an_mpi(
    mpirun: Path, dialect: str, text: str
) -> None:
    """That of the one installed, unless another is named."""
    hosts = ("--hosts", "a:2,[fd00::7]:1", "--mpi", str(mpirun))

    ended = run("hostfile", *hosts, "--dialect", dialect)

    assert (ended.returncode, ended.stdout.decode()) == (0, text), ended.stderr


def test_without_an_mpi_the_dialect_must_be_named(tmp_path: Path) -> None:
    """Nothing is guessed."""
    code = "import sys; sys.executable = '/no/python'; from mpi_agent.cli import main; main()"
    words = [sys.executable, "-c", code, "hostfile", "--hosts", "a"]
    environ = {**os.environ, "PATH": str(tmp_path)}

    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=environ)
    named = subprocess.run(
        [*words, "--dialect", "mpich"], capture_output=True, text=True, check=False, env=environ
    )

    assert ended.returncode == 127
    assert "cannot tell the form of the hostfile: no MPI is installed here" in ended.stderr
    assert "--dialect openmpi, mpich or intel" in ended.stderr
    assert (named.returncode, named.stdout) == (0, "a:1\n"), named.stderr


def test_hosts_are_told_one_a_line_and_as_json(mpirun: Path) -> None:
    """In rank order, also those of an mpirun line."""
    own = socket.gethostname()

    text = run("hosts", "--hosts", "b:2,a,localhost", "--mpi", str(mpirun))
    values = run(
        "hosts", "--output", "json", "--mpi", str(mpirun), "--", "mpirun", "-H", "b:3", "./x"
    )

    assert text.stdout.decode().splitlines() == [
        "b slots=2 worker",
        "a slots=1 worker",
        f"{own} slots=1 launcher local",
    ]
    told = json.loads(values.stdout)
    assert (told["slots"], told["hosts"][0]["name"]) == (3, "b")
    assert told["hosts"][0]["role"] == "worker"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--output", "yaml"), "none of text, json, shell"),
        (("--environment", "--output", "shell"), "as a shell script"),
        (("--env-file", "/no/such"), 'env file "/no/such": No such file'),
        (("--env-file", "/"), 'env file "/": Is a directory'),
        (("--env-file", "/dev/zero"), "it has more than"),
        (("--env", "PMIX_RANK=1"), "variable PMIX_RANK is set anew"),
        (("--env", "NOT_SET"), "variable NOT_SET is not set here"),
        (("--env-prefix", "1*"), "no start of a variable's name"),
    ],
)
def test_a_bad_plan_is_refused_in_one_sentence(
    mpirun: Path, words: tuple[str, ...], said: str
) -> None:
    """With the code of a bad setting, and a hint."""
    ended = run("plan", "--hosts", "a", "--mpi", str(mpirun), *words, "--", "./x")

    stderr = ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (78, b""), stderr
    assert said in stderr
    assert "hint: " in stderr
    assert "Traceback" not in stderr


def test_a_bad_line_of_an_env_file_is_named(tmp_path: Path, mpirun: Path) -> None:
    """And a pipe is read as a file, for secrets that must not be written down."""
    path = tmp_path / "job.env"
    path.write_text("A=1\nB='s3cret\n")
    words = (sys.executable, "-m", "mpi_agent", "plan", "--hosts", "a", "--mpi", str(mpirun))

    refused = run(*words[3:], "--env-file", str(path), "--", "./x")
    line = '"$@" --env-file <(echo FROM_PIPE=s3cret) --environment -- ./x'
    piped = subprocess.run(
        ["bash", "-c", line, "bash", *words], capture_output=True, text=True, check=False
    )

    assert f'"{path}", line 2: the quote is not closed' in refused.stderr.decode()
    assert b"s3cret" not in refused.stderr
    assert "FROM_PIPE" in piped.stdout, piped.stderr
    assert "s3cret" not in piped.stdout
