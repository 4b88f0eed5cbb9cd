"""What a session on a worker finds: its variables, its directory, its shell, on both back ends."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpi_agent.ssh.nss_wrapper import find_nss_wrapper
from tests.workers import (
    OPENSSH_CLIENT,
    JobKeys,
    RunningWorker,
    dial,
    ordinary_uid,
    require_program,
    running_worker,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

EVERY_BYTE = bytes(range(1, 256))
HARD_VALUES = {
    "LAB_EVERY_BYTE": os.fsdecode(EVERY_BYTE),
    "LAB_BACKWARDS": os.fsdecode(EVERY_BYTE[::-1]),
    "LAB_LINES": "one\ntwo\r\n\n",
    "LAB_QUOTES": "it's \"quoted\" ''' \\' \\\\",
    "LAB_SHELL": "$HOME `id` $(id) ${PATH} ;|&<>*?#!~ \\n %s",
    "LAB_EMPTY": "",
    "LAB_BIG": "x" * 131_000,
    "UID": "4711",
    "LC_CTYPE": "C.UTF-8",
}
MANY = {f"LAB_N{number}": f"value {number}" for number in range(5000)}


class Sessions:
    """Runs commands on one worker."""

    def __init__(self, keys: JobKeys, root: Path, worker: RunningWorker) -> None:
        require_program("ssh")
        self.worker = worker
        self._config = write_ssh_config(keys, root, (worker,))

    def run(
        self, *command: str, data: bytes = b"", options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one session to its end."""
        return dial(OPENSSH_CLIENT, self._config, *options, self.worker.name, *command, data=data)

    def environment(self, command: str = "env -0") -> dict[str, str]:
        """Return the variables of a session, byte for byte."""
        pairs = self.run(command).stdout.split(b"\0")
        return {
            os.fsdecode(name): os.fsdecode(value)
            for name, _, value in (pair.partition(b"=") for pair in pairs if pair)
        }


@contextmanager
def sessions(
    keys: JobKeys,
    root: Path,
    backend: str,
    *more: str,
    uid: int | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path = Path("/"),
) -> Iterator[Sessions]:
    """Give the sessions of a worker that is ready."""
    own = {"HOME": str(root), **(environ or {})}
    arguments = ("--sshd", backend, *more)
    with running_worker(keys, root, *arguments, uid=uid, environ=own, cwd=cwd) as worker:
        yield Sessions(keys, root, worker)


def test_every_value_arrives_byte_for_byte(root: Path, keys: JobKeys, backend: str) -> None:
    """Five thousand variables, every byte, line breaks, and as much as one variable can hold."""
    with sessions(keys, root, backend, environ={**HARD_VALUES, **MANY}) as opened:
        found = opened.environment()

    expected = {**HARD_VALUES, **MANY}
    wrong = {name for name, value in expected.items() if found.get(name) != value}
    assert wrong == set()
    assert "SSH_ORIGINAL_COMMAND" not in found


def test_name_that_no_shell_can_use_is_told(root: Path, keys: JobKeys, backend: str) -> None:
    """It is refused by name; the others arrive."""
    environ = {"with.dot": "x", "LAB_LINES": "a\nb"}
    with sessions(keys, root, backend, environ=environ) as opened:
        found = opened.environment()
        log = opened.worker.log.read_text()

    assert "with.dot" not in found
    assert found["LAB_LINES"] == "a\nb"
    assert "with.dot: not a name that a shell can use" in log


def test_what_the_client_sends_arrives_beside_it(root: Path, keys: JobKeys, backend: str) -> None:
    """The id of a run, by which its processes are known, and nothing else."""
    options = ("-o", "SetEnv=MPI_AGENT_RUN_ID=run-1 LAB_SENT=x")
    with sessions(keys, root, backend, environ={"LAB_LINES": "a\nb"}) as opened:
        told = opened.run("echo $MPI_AGENT_RUN_ID-$LAB_SENT", options=options).stdout

    assert told == b"run-1-\n"


def test_a_session_by_the_script_is_like_any_other(root: Path, keys: JobKeys) -> None:
    """Input, output, exit code, signal and quotes; nothing more is printed."""
    require_program("sshd")
    data = os.urandom(1_000_000)
    with sessions(keys, root, "openssh", environ={"LAB_LINES": "a\nb"}) as opened:
        copied = opened.run("cat", data=data)
        coded = opened.run("echo out; echo \"it's\" '$HOME' >&2; exit 7")
        killed = opened.run("kill -9 $$")
        without_command = opened.run(data=b"echo in; exit 3\n", options=("-T",))

    assert (copied.returncode, copied.stdout, copied.stderr) == (0, data, b"")
    assert (coded.returncode, coded.stdout, coded.stderr) == (7, b"out\n", b"it's $HOME\n")
    assert killed.returncode == 255
    assert (without_command.returncode, without_command.stdout) == (1, b"")
    assert without_command.stderr == b"mpi-agent: this server runs commands, nothing else\n"


def test_a_session_begins_in_the_workers_directory(root: Path, keys: JobKeys, backend: str) -> None:
    """The container's WORKDIR, where the program's files are."""
    workdir = root / "it's a directory"
    workdir.mkdir()
    with sessions(keys, root, backend, cwd=workdir) as opened:
        told = opened.run("pwd").stdout

    assert told == f"{workdir}\n".encode()


START_UP_FILES = {
    ".bashrc": "echo READ; export PATH=/nowhere; while :; do sleep 1; done\n",
    ".zshenv": "echo READ; export PATH=/nowhere; while :; do sleep 1; done\n",
    ".cshrc": "echo READ\nsetenv PATH /nowhere\nwhile (1)\n/bin/sleep 1\nend\n",
    ".config/fish/config.fish": "echo READ; set -x PATH /nowhere; while true; sleep 1; end\n",
}


def account_with_shell(root: Path, shell: str, uid: int) -> dict[str, str]:
    """Return the variables under which an account has this shell, and files that print and hang."""
    library = find_nss_wrapper()
    if library is None:
        pytest.skip("libnss-wrapper is not installed")
    name, home = pwd.getpwuid(uid).pw_name, root / "login-home"
    for file, text in START_UP_FILES.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
    entry = f"{name}:x:{uid}:{uid}::{home}:{shell}\n"
    lines = Path("/etc/passwd").read_text().splitlines(keepends=True)
    others = [line for line in lines if not line.startswith(f"{name}:")]
    (root / "passwd").write_text("".join(others) + entry)
    return {
        "LD_PRELOAD": library,
        "NSS_WRAPPER_PASSWD": str(root / "passwd"),
        "NSS_WRAPPER_GROUP": "/etc/group",
    }


@pytest.mark.parametrize("shell", ["bash", "dash", "mksh", "zsh", "tcsh", "fish"])
def test_no_start_up_file_prints_hangs_or_sets_path(
    root: Path, keys: JobKeys, backend: str, shell: str
) -> None:
    """Whatever the account's shell is; and it is that shell which runs the command."""
    program, uid = require_program(shell), ordinary_uid()
    path = f"/opt/lab/bin:{os.environ['PATH']}"
    environ = {**account_with_shell(root, program, uid), "PATH": path, **HARD_VALUES}
    with sessions(keys, root, backend, uid=uid, environ=environ) as opened:
        found = opened.environment()
        pid = "$fish_pid" if shell == "fish" else "$$"
        told = opened.run(f"ps -o comm= -p {pid}; true")

    assert found["PATH"] == path
    assert found["HOME"] == str(root / "login-home")
    assert {name: found.get(name) for name in HARD_VALUES} == HARD_VALUES
    assert told.stdout.decode().strip() == shell
    assert told.stderr == b""


@pytest.mark.parametrize("value", ["plain", "two\nlines"], ids=["SetEnv", "script"])
def test_start_up_files_are_read_where_they_are_asked_for(
    root: Path, keys: JobKeys, backend: str, value: str
) -> None:
    """`--login-files read` is for images that set their modules up there."""
    bash, uid = require_program("bash"), ordinary_uid()
    environ = {**account_with_shell(root, bash, uid), "LAB": value}
    (root / "login-home/.bashrc").write_text("export PATH=/opt/modules:$PATH\n")
    with sessions(keys, root, backend, "--login-files", "read", uid=uid, environ=environ) as opened:
        found = opened.environment()

    assert found["PATH"].startswith("/opt/modules:")
    assert found["LAB"] == value
