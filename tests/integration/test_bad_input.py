"""What a careless user types: one sentence, a hint, the right code, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def run_agent(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run mpi-agent as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "mpi_agent", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environ},
    )


def run_as_uid_1000(*words: str, home: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    """Run mpi-agent as another user, with all modules loaded: it may not read where they stand."""
    code = (
        "import concurrent.futures.thread, importlib, os, pkgutil, mpi_agent\n"
        "for module in pkgutil.walk_packages(mpi_agent.__path__, 'mpi_agent.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "os.setgroups([]); os.setgid(1000); os.setuid(1000)\n"
        "mpi_agent.cli.main()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        env={**os.environ, "HOME": str(home)},
    )


def make_fake_mpirun(directory: Path, *, says: str = "mpirun (Open MPI) 5.0.7") -> Path:
    """Write a program that calls itself an mpirun; it is asked for its version alone."""
    directory.mkdir(exist_ok=True)
    mpirun = directory / "mpirun"
    mpirun.write_text(f'#!/bin/sh\necho "{says}"\n')
    mpirun.chmod(0o755)
    return mpirun


@pytest.mark.parametrize(
    ("hostfile", "code", "said"),
    [
        ("", 65, "it has no entries"),
        ("a slots=0\n", 65, "line 1, `a slots=0`: a host needs at least 1 slot"),
        ("a\nb slots=abc\n", 65, 'line 2, `b slots=abc`: "abc" is not a number of slots'),
        ("a lots=2\n", 65, 'line 1, `a lots=2`: "lots=2" is not understood'),
        (None, 66, "there is no such file"),
    ],
)
def test_a_bad_hostfile(tmp_path: Path, hostfile: str | None, code: int, said: str) -> None:
    """The line is named by number and text."""
    mpirun = make_fake_mpirun(tmp_path)
    path = tmp_path / "hostfile"
    if hostfile is not None:
        path.write_text(hostfile)

    ended = run_agent("launch", "--mpi", str(mpirun), "--hostfile", str(path), "--", "./pi")

    assert ended.returncode == code
    assert said in ended.stderr
    assert "hint: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("launch",), 78, "no program is given"),
        (("launch", "--timeout", "soon", "--", "./pi"), 78, '"soon" for --timeout'),
        (("launch", "--nonsense", "--", "./pi"), 2, "No such option"),
        (("lunch",), 2, "No such command"),
        (("launch", "--hosts", "a,b", "--mpi", "/no/mpirun", "--", "./pi"), 127, "cannot find"),
        (("launch", "--hosts", "a,b", "--hostfile", "x", "--", "./pi"), 78, "both given"),
        (("launch", "--hosts", "a b", "--", "./pi"), 65, "item 1"),
        (("launch", "--hosts", "a:99999999999", "--", "./pi"), 65, "more than 65536 slots"),
        (("launch", "--hosts", "a", "--", ""), 78, "no program is given"),
        (("local", "--", ""), 78, "no program is given"),
        (("local", "--workers", "300", "--", "true"), 78, "at most 250"),
        (("local", "--workers", "0", "--", "true"), 78, "not a whole number of at least 1"),
        (("local", "--state-dir", "/etc/passwd", "--", "true"), 73, "no directory"),
        (("local", "--", "/no/such/program"), 127, "there is no such program"),
        (("local", "--", "/etc/passwd"), 126, "it is not executable"),
        (("local", "--", "mpirun", "-H", "a", "true"), 78, "the mpirun line names them too"),
        (("worker", "--ready-file", "/no/ready"), 78, "cannot write the ready file"),
    ],
)
def test_a_bad_command(words: tuple[str, ...], code: int, said: str) -> None:
    """Flags, values and programs."""
    ended = run_agent(*words)

    assert ended.returncode == code
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_mpirun_that_may_not_be_executed(tmp_path: Path) -> None:
    """126, as a shell says it."""
    mpirun = make_fake_mpirun(tmp_path)
    mpirun.chmod(0o644)

    ended = run_agent("launch", "--hosts", "a", "--mpi", str(mpirun), "--", "./pi")

    assert ended.returncode == 126
    assert "it is not executable" in ended.stderr


def test_an_mpi_without_a_dialect(tmp_path: Path) -> None:
    """It is recognised and named."""
    mpirun = make_fake_mpirun(tmp_path, says="mvapich2 version 2.3.7")

    ended = run_agent("launch", "--hosts", "a,b", "--mpi", str(mpirun), "--", "./pi")

    assert ended.returncode == 78
    assert "MVAPICH 2.3.7" in ended.stderr


def test_more_processes_than_slots(tmp_path: Path) -> None:
    """Told before anybody is dialled."""
    mpirun = make_fake_mpirun(tmp_path)
    words = ("--mpi", str(mpirun), "--hosts", "a,b", "--", "mpirun", "-np", "3", "./pi")

    ended = run_agent("launch", *words)

    assert ended.returncode == 78
    assert "2 hosts have 2 slots" in ended.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_unreadable_key_names_uid_owner_mode_and_the_manifest_line(tmp_path: Path) -> None:
    """A Secret of mode 0600 belongs to root, and the container runs as somebody else."""
    tmp_path.chmod(0o755)
    for parent in (tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    mpirun = make_fake_mpirun(tmp_path / "bin")
    key = tmp_path / "id_rsa"
    key.write_text("-----BEGIN EC PRIVATE KEY-----\n")
    key.chmod(0o600)

    ended = run_as_uid_1000(
        *("launch", "--hosts", "a,b", "--mpi", str(mpirun), "--ssh-key", str(key), "--", "./pi")
    )

    assert ended.returncode == 77, ended.stderr
    assert "as uid 1000: it belongs to uid 0 gid 0 with mode 0600" in ended.stderr
    assert "fsGroup: 1000" in ended.stderr
    assert "defaultMode: 0440" in ended.stderr


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    """A public key in the wrong place, or an encrypted one."""
    mpirun = make_fake_mpirun(tmp_path)
    key = tmp_path / "id_rsa"
    key.write_text("not a key\n")

    ended = run_agent(
        "launch", "--hosts", "a,b", "--mpi", str(mpirun), "--ssh-key", str(key), "--", "./pi"
    )

    assert ended.returncode == 77
    assert f'cannot use the job\'s private key "{key}"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_unknown_variable_is_reported_and_not_fatal(tmp_path: Path) -> None:
    """A typing error in a manifest shows in the log."""
    mpirun = make_fake_mpirun(tmp_path)

    ended = run_agent(
        "launch", "--hosts", "localhost", "--mpi", str(mpirun), "--", "true", MPI_AGENT_TIMEOT="1m"
    )

    assert "MPI_AGENT_TIMEOT is no setting; MPI_AGENT_TIMEOUT is" in ended.stderr
    assert ended.returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_key_behind_a_closed_door_is_told_from_a_missing_one(tmp_path: Path) -> None:
    """A key may lie there, or none: this uid cannot tell, and no fsGroup opens the door."""
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    mpirun = make_fake_mpirun(tmp_path / "bin")
    closed = tmp_path / "home" / ".ssh"
    closed.mkdir(parents=True)
    (closed / "id_rsa").write_text("-----BEGIN EC PRIVATE KEY-----\n")
    closed.parent.chmod(0o700)

    ended = run_as_uid_1000(
        "launch", "--hosts", "a,b", "--mpi", str(mpirun), "--", "./pi", home=closed.parent
    )

    assert ended.returncode == 77, ended.stderr
    assert "cannot find the job's private key" in ended.stderr
    assert f"; uid 1000 may not enter {closed}" in ended.stderr
    assert "mount the job's ssh Secret where uid 1000 may read it, not in " in ended.stderr
    assert "sshAuthMountPath: /home/mpiuser/.ssh" in ended.stderr
    assert "fsGroup" not in ended.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_key_that_is_named_behind_a_closed_door_is_to_be_mounted_elsewhere(
    tmp_path: Path,
) -> None:
    """With --ssh-key it is known where the key should be."""
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    mpirun = make_fake_mpirun(tmp_path / "bin")
    closed = tmp_path / "keys"
    closed.mkdir(mode=0o700)
    key = closed / "id_rsa"

    ended = run_as_uid_1000(
        *("launch", "--hosts", "a,b", "--mpi", str(mpirun), "--ssh-key", str(key), "--", "./pi")
    )

    assert ended.returncode == 77, ended.stderr
    assert f'"{key}" as uid 1000: it lies in a directory that this uid may not' in ended.stderr
    assert "mount the job's ssh Secret where uid 1000 may read it" in ended.stderr
    assert "fsGroup" not in ended.stderr


@pytest.mark.parametrize(
    "redirection", ["2>&-", "2>/dev/full", "2> >(true)"], ids=["closed", "full", "reader gone"]
)
def test_a_log_that_cannot_be_written_does_not_cost_the_programs_code(redirection: str) -> None:
    """The program runs to its end, and its exit code is told."""
    agent = f"{sys.executable} -m mpi_agent launch --hosts localhost"
    line = f"{agent} -- sh -c 'sleep 0.5; exit 5' {redirection}"

    ended = subprocess.run(["bash", "-c", line], timeout=60, check=False, capture_output=True)

    assert ended.returncode == 5


def test_a_pipe_in_place_of_a_hostfile_is_refused(tmp_path: Path) -> None:
    """Reading one that nobody writes to would last for ever."""
    os.mkfifo(tmp_path / "pipe")

    ended = run_agent("wait", "--hostfile", str(tmp_path / "pipe"))

    assert ended.returncode == 65
    assert "it is a pipe" in ended.stderr
