"""What mpirun needs of an ssh server, promised by both back ends, asked by both clients."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import psutil
import pytest

from tests.waiting import wait_until
from tests.workers import (
    BUILTIN_CLIENT,
    OPENSSH_CLIENT,
    RunningWorker,
    dial,
    make_job_keys,
    open_directory,
    ordinary_uid,
    require_program,
    running_worker,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

HOSTILE_VALUES = {
    "LAB_QUOTES": 'it\'s "quoted"',
    "LAB_SHELL": "$HOME `id` $(id) ;|&<>*?#!~",
    "LAB_BACKSLASH": "a\\b\\\\c\\n \\\" \\' \\ ",
    "LAB_BLANKS": "  two  blanks\tand a tab ",
    "LAB_UNICODE": "prüfung 計算 🚀",
    "LAB_EQUALS": "a=b=c",
    "LAB_EMPTY": "",
    "LAB_BYTES": os.fsdecode(b"\xff\xfe not unicode"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """A worker, and a client with the configuration to dial it."""

    worker: RunningWorker
    client: tuple[str, ...]
    config: Path

    def run(
        self, command: str, *options: str, data: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command on the worker."""
        return dial(self.client, self.config, *options, self.worker.name, command, data=data)


@pytest.fixture(
    scope="module", params=["openssh-own", "openssh-ordinary", "builtin-own", "builtin-ordinary"]
)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[RunningWorker, Path]]:
    """Give a worker of each back end, under the tests' own account and under an ordinary one."""
    backend, _, account = request.param.partition("-")
    if backend == "openssh":
        require_program("sshd")
    uid = ordinary_uid() if account == "ordinary" else None
    with open_directory() as root:
        keys = make_job_keys(root / "mount")
        with running_worker(
            keys, root, "--sshd", backend, uid=uid, environ=HOSTILE_VALUES
        ) as worker:
            yield worker, write_ssh_config(keys, root, (worker,))


@pytest.fixture(params=["openssh", "builtin"])
def dialled(request: pytest.FixtureRequest, served: tuple[RunningWorker, Path]) -> Dialled:
    """Give that worker together with each client."""
    worker, config = served
    if request.param == "openssh":
        require_program("ssh")
    client = OPENSSH_CLIENT if request.param == "openssh" else BUILTIN_CLIENT
    return Dialled(worker=worker, client=client, config=config)


def test_exit_code_of_the_command_comes_back(dialled: Dialled) -> None:
    """Daemons are judged by this code."""
    assert dialled.run("exit 7").returncode == 7


def test_command_that_is_killed_is_no_success(dialled: Dialled) -> None:
    """OpenSSH's client says 255 for a signal, ours 128 + signal."""
    code = dialled.run("kill -9 $$").returncode

    assert code == (255 if dialled.client == OPENSSH_CLIENT else 137)


def test_command_that_dies_of_a_signal_without_a_name_is_no_success(dialled: Dialled) -> None:
    """Real-time signals have no name in the protocol, and most have none in Python."""
    assert dialled.run("kill -35 $$").returncode > 128


def test_a_megabyte_passes_in_and_out_unchanged(dialled: Dialled) -> None:
    """Every byte value, more than any buffer holds."""
    data = os.urandom(1_000_000)

    ended = dialled.run("cat", data=data)

    assert (ended.returncode, ended.stdout) == (0, data)


def test_stderr_comes_back_apart_from_stdout(dialled: Dialled) -> None:
    """The causes of failures are read from stderr."""
    ended = dialled.run("echo out; echo err >&2")

    assert (ended.stdout, ended.stderr) == (b"out\n", b"err\n")


def test_end_of_input_does_not_end_the_session(dialled: Dialled) -> None:
    """An ssh client of mpirun has /dev/null as input."""
    ended = dialled.run("sleep 0.3; echo still here")

    assert ended.stdout == b"still here\n"


def test_variables_of_the_container_arrive_byte_for_byte(dialled: Dialled) -> None:
    """Paths and network settings of the worker's container must reach its ranks."""
    told = dialled.run("env -0").stdout.split(b"\0")

    expected = {os.fsencode(f"{name}={value}") for name, value in HOSTILE_VALUES.items()}
    assert expected <= set(told)


def test_worker_tells_its_name_in_every_session(dialled: Dialled) -> None:
    """The name identifies the worker even where several share one host name."""
    assert dialled.run("echo $MPI_AGENT_WORKER_NAME").stdout == b"pi-worker-0\n"


def test_session_runs_as_the_account_in_its_home(dialled: Dialled) -> None:
    """USER, LOGNAME, HOME and SHELL are there, as under any sshd."""
    told = dialled.run("echo $USER $LOGNAME; test -n $HOME && test -x $SHELL && echo ok").stdout

    assert told == f"{dialled.worker.user} {dialled.worker.user}\nok\n".encode()


def test_another_key_is_refused(dialled: Dialled, tmp_path: Path) -> None:
    """Only the job's key opens a worker."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    stranger = tmp_path / "stranger"
    stranger.touch(mode=0o600)
    stranger.write_bytes(key.export_private_key())
    text = dialled.config.read_text()
    own_line = next(line for line in text.splitlines() if "IdentityFile" in line)
    config = tmp_path / "ssh_config"
    config.write_text(text.replace(own_line, f"  IdentityFile {stranger}"))

    ended = dial(dialled.client, config, dialled.worker.name, "true")

    assert ended.returncode == 255
    assert b"Permission denied" in ended.stderr


def test_another_user_is_refused(dialled: Dialled) -> None:
    """A worker has one account, whoever else the image knows."""
    ended = dialled.run("true", "-o", "User=daemon")

    assert ended.returncode == 255
    assert b"Permission denied" in ended.stderr


def test_ten_sessions_at_once_all_end_well(dialled: Dialled) -> None:
    """Probes, tree spawn and mpirun may come together."""
    codes: list[int] = []

    def session(code: int) -> None:
        codes.append(dialled.run(f"sleep 0.2; exit {code}").returncode)

    threads = [threading.Thread(target=session, args=(code,)) for code in range(10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(codes) == list(range(10, 20))


def test_no_zombie_stays(dialled: Dialled) -> None:
    """A worker is PID 1 of its container: nobody else reaps there."""
    dialled.run("(sleep 0.1 >/dev/null 2>&1 &) ; setsid sh -c 'sleep 0.1' >/dev/null 2>&1 &")

    worker = psutil.Process(dialled.worker.popen.pid)
    wait_until("sessions are reaped", lambda: len(worker.children()) <= 1)
    wait_until(
        "no zombie",
        lambda: all(child.status() != psutil.STATUS_ZOMBIE for child in worker.children()),
    )


def test_daemon_survives_the_end_of_its_session(dialled: Dialled) -> None:
    """Open MPI 4's orted has a session of its own and outlives the ssh that started it."""
    ended = dialled.run("setsid sh -c 'echo $$; exec sleep 60 >/dev/null 2>&1' </dev/null &")

    pid = int(ended.stdout)
    assert psutil.pid_exists(pid)
    psutil.Process(pid).kill()


def test_banner_names_the_agent_and_the_worker(served: tuple[RunningWorker, Path]) -> None:
    """The launcher knows by it that host keys can be insisted on."""
    from mpi_agent.ssh.banner import read_banner

    banner = read_banner(served[0].address, served[0].port, timeout_s=5)

    assert banner.endswith("mpi-agent pi-worker-0")


@pytest.mark.parametrize(
    "options", [("-L", "0:127.0.0.1:22"), ("-R", "0:127.0.0.1:22")], ids=["local", "remote"]
)
def test_ports_are_not_forwarded(
    served: tuple[RunningWorker, Path], options: tuple[str, str]
) -> None:
    """A job's key opens a way to run commands, not into the pod's network."""
    require_program("ssh")
    worker, config = served
    flag, spec = options
    if flag == "-L":
        ended = dial(OPENSSH_CLIENT, config, "-W", "127.0.0.1:22", worker.name)
    else:
        ended = dial(
            OPENSSH_CLIENT,
            config,
            "-o",
            "ExitOnForwardFailure=yes",
            flag,
            spec,
            worker.name,
            "true",
        )

    assert ended.returncode == 255


def test_agent_and_files_are_not_offered(served: tuple[RunningWorker, Path]) -> None:
    """No agent socket in a session, and no sftp."""
    require_program("ssh")
    worker, config = served

    socket_name = dial(OPENSSH_CLIENT, config, "-A", worker.name, "echo [$SSH_AUTH_SOCK]")
    sftp = dial(OPENSSH_CLIENT, config, "-s", worker.name, "sftp")

    assert socket_name.stdout == b"[]\n"
    assert sftp.returncode != 0
