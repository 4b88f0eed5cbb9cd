"""The built-in ssh client at its edges; what both clients do stands in the contract tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import asyncssh
import pytest

from mpi_agent.container import own_account
from mpi_agent.setting_words import Backend
from mpi_agent.ssh.installed import write_client
from mpi_agent.ssh.trust import render_ssh_config
from mpi_agent.state import open_state_directory
from tests.fault_matrix import terms_of
from tests.plain_sshd import running_sshd
from tests.workers import (
    BUILTIN_CLIENT,
    LIMIT_S,
    JobKeys,
    dial,
    running_worker,
    write_ssh_config,
)

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    "line",
    ["Ciphers aes256-ctr", "KexAlgorithms ecdh-sha2-nistp384"],
    ids=["ciphers", "key exchange"],
)
def test_client_agrees_with_an_sshd_that_allows_little(
    root: Path, keys: JobKeys, line: str
) -> None:
    """Where the wait's probe was let in, mpirun's client is let in too."""
    with running_sshd(keys, root, line) as sshd:
        (target,) = sshd.targets
        config = root / "ssh_config"
        config.write_text(render_ssh_config(terms_of(keys, root), (target,)))

        ended = dial(BUILTIN_CLIENT, config, target.name, "echo done")

    assert (ended.stdout, ended.returncode) == (b"done\n", 0), ended.stderr


def test_client_without_any_input_runs_its_command(root: Path, keys: JobKeys) -> None:
    """Some launchers close descriptor 0 altogether."""
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = write_ssh_config(keys, root, (worker,))
        line = [*BUILTIN_CLIENT, "-F", str(config), worker.name, "cat; echo done"]

        ended = subprocess.run(
            ["sh", "-c", 'exec "$@" <&-', "sh", *line],
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )

    assert (ended.stdout, ended.returncode) == (b"done\n", 0)


def test_the_directory_in_which_a_client_is_called_is_no_place_for_its_modules(
    tmp_path: Path,
) -> None:
    """It is the user's, and the client holds the job's key: nothing of his is run in it."""
    state = open_state_directory(str(tmp_path / "state"))
    write_client(Backend.BUILTIN, own_account(), state)
    work = tmp_path / "work"
    work.mkdir()
    for name in ("types", "asyncssh", "click", "mpi_agent"):
        (work / f"{name}.py").write_text("print('foreign', flush=True)\n")

    ended = subprocess.run(
        [
            "/bin/sh",
            str(state.file("ssh_client")),
            "-F",
            "/dev/null",
            "-p",
            "1",
            "127.0.0.1",
            "true",
        ],
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert ended.stdout == b""
    assert ended.returncode == 255
    assert ended.stderr.startswith(b"mpi-agent ssh: cannot run a command"), ended.stderr


def test_client_tells_a_failure_in_one_line(tmp_path: Path) -> None:
    """What mpirun shows of it must be short and name the host."""
    config = tmp_path / "config"
    config.write_text("Host *\n  Port 1\n  HostName 127.0.0.1\n  StrictHostKeyChecking no\n")

    ended = dial(BUILTIN_CLIENT, config, "pi-worker-7", "true")

    assert ended.returncode == 255
    assert ended.stderr.startswith(b'mpi-agent ssh: cannot run a command on "pi-worker-7": ')
    assert ended.stderr.count(b"\n") == 1


def test_client_does_not_check_host_keys_when_the_configuration_says_so(
    root: Path, keys: JobKeys
) -> None:
    """For workers that do not run the agent, and with --insecure-host-keys."""
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = write_ssh_config(keys, root, (worker,), authority=stranger)
        option = ("-o", "StrictHostKeyChecking=no")

        ended = dial(BUILTIN_CLIENT, config, *option, worker.name, "exit 7")

    assert ended.returncode == 7, ended.stderr
