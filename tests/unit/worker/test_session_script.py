"""When sessions of OpenSSH need a script, and what it says."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.setting_words import LoginFiles
from mpi_agent.worker.refusals import ONLY_COMMANDS
from mpi_agent.worker.session_script import (
    arguments_of_shell,
    render_session_script,
    why_by_script,
)
from mpi_agent.worker.sshd_config import ForcedScript, SshdPlan, render_sshd_config

PLAN = SshdPlan(
    port=2222,
    listen_address=None,
    account="mpiuser",
    home="/home/mpiuser",
    shell="/bin/bash",
    worker_name="pi-worker-0",
    host_key="/run/mpi-agent/host_key",
    host_certificate=None,
    authorized_keys="/run/mpi-agent/authorized_keys",
    strict_modes=True,
    variables=(("PATH", "/opt/a b:/bin"), ("SHLVL", "1")),
)


def lines_of(plan: SshdPlan) -> list[bytes]:
    """Return the script's lines."""
    return render_session_script(plan).splitlines()


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/dash", "/bin/ash"])
def test_a_small_environment_needs_no_script(shell: str) -> None:
    """SetEnv carries it, and such a shell reads nothing for a command."""
    assert why_by_script(replace(PLAN, shell=shell)) is None


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, variables=(("A", "x\ny"),)),
        replace(PLAN, variables=(("A", "x\ry"),)),
        replace(PLAN, variables=tuple((f"N{number}", "") for number in range(1000))),
        replace(PLAN, variables=(("A", "x" * 300_000),)),
        replace(PLAN, working_directory="/workspace"),
        replace(PLAN, shell="/usr/bin/zsh"),
        replace(PLAN, shell="/bin/tcsh"),
        replace(PLAN, shell="/opt/some/shell"),
    ],
    ids=["line break", "return", "many", "big", "directory", "zsh", "tcsh", "unknown shell"],
)
def test_what_does_not_fit_goes_by_the_script(plan: SshdPlan) -> None:
    """And the reason is told."""
    assert why_by_script(plan)


def test_start_up_files_that_were_asked_for_need_no_script() -> None:
    """They may set what they like then."""
    plan = replace(PLAN, shell="/usr/bin/zsh", login_files=LoginFiles.READ)

    assert why_by_script(plan) is None
    assert arguments_of_shell(plan.shell, plan.login_files) == ()


@pytest.mark.parametrize(
    ("shell", "call"),
    [
        ("/bin/bash", b"exec '/bin/bash' \"$@\""),
        ("/bin/tcsh", b"exec '/bin/tcsh' '-f' \"$@\""),
        ("/usr/bin/fish", b"exec '/usr/bin/fish' '--no-config' \"$@\""),
        ("/usr/bin/zsh", b"exec '/usr/bin/zsh' '--emulate' 'sh' \"$@\""),
    ],
)
def test_command_runs_under_the_accounts_shell(shell: str, call: bytes) -> None:
    """Mpirun writes its command for the shell that the account has."""
    assert lines_of(replace(PLAN, shell=shell))[-1] == call


def test_value_is_one_word_of_sh() -> None:
    """Only the quote itself ends a quoted word."""
    plan = replace(PLAN, variables=(("A", "it's $HOME `id`\n\\ \udcff"),))

    assert b"export A='it'\\''s $HOME `id`\n\\ \xff'\n" in render_session_script(plan)


def test_variables_that_a_shell_keeps_to_itself_are_handed_over_by_env() -> None:
    """`export UID=1` ends a script where /bin/sh is bash."""
    script = lines_of(replace(PLAN, variables=(("A", "x"), ("UID", "1000"))))

    assert b"export A='x'" in script
    assert script[-1] == b"exec env UID='1000' '/bin/bash' \"$@\""
    assert script[-3].startswith(b"if [ -x /usr/bin/env ]; then exec /usr/bin/env UID='1000' ")


@pytest.mark.parametrize(
    "shell", [("sh",), ("bash", "--posix"), ("busybox", "sh")], ids=["sh", "bash", "busybox"]
)
def test_the_script_needs_nothing_in_the_path_of_the_session(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    """Which is the container's, and may lead nowhere."""
    program = shutil.which(shell[0])
    if program is None:
        pytest.skip(f"{shell[0]} is not installed")
    script = tmp_path / "session"
    variables = (("PATH", "/nowhere"), ("SECONDS", "7"), ("UID", "4711"))
    script.write_bytes(render_session_script(replace(PLAN, shell="/bin/sh", variables=variables)))

    ended = subprocess.run(
        [program, *shell[1:], str(script)],
        env={"SSH_ORIGINAL_COMMAND": "/usr/bin/env", "PATH": "/nowhere"},
        capture_output=True,
        check=False,
    )

    told = ended.stdout.decode().splitlines()
    assert ended.returncode == 0, ended.stderr
    assert {"PATH=/nowhere", "SECONDS=7", "UID=4711", "HOME=/home/mpiuser"} <= set(told)


def test_the_script_refuses_a_login_without_a_command(tmp_path: Path) -> None:
    """In the words of the built-in server."""
    script = tmp_path / "session"
    script.write_bytes(render_session_script(PLAN))

    ended = subprocess.run(
        ["/bin/sh", str(script)], env={}, input=b"echo ran\n", capture_output=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr == f"mpi-agent: {ONLY_COMMANDS}\n".encode()


def test_start_up_files_are_read_once_more_if_they_were_asked_for() -> None:
    """After the variables are set, so that bash's files have the last word."""
    plan = replace(PLAN, working_directory="/w", login_files=LoginFiles.READ)

    assert b"unset SHLVL" in lines_of(plan)
    assert b"unset SHLVL" not in lines_of(replace(PLAN, working_directory="/w"))


def test_sshd_runs_the_script_with_a_home_where_no_files_are() -> None:
    """Nothing else is set then."""
    script = ForcedScript(path="/run/it's/session", home="/run/none")

    config = render_sshd_config(
        replace(PLAN, variables=(("A", "x\ny"),), script=script), version=(9, 2)
    ).splitlines()

    assert "ForceCommand exec /bin/sh '/run/it'\\''s/session'" in config
    assert 'SetEnv "HOME=/run/none" "SHLVL=1"' in config
    assert "AcceptEnv MPI_AGENT_RUN_ID" in config


def test_the_users_directives_stand_before_ours() -> None:
    """For sshd the first one counts."""
    plan = replace(PLAN, own_directives=(("MaxStartups", "7"),))

    config = render_sshd_config(plan, version=(9, 2)).splitlines()

    assert [line for line in config if "MaxStartups" in line] == [
        "MaxStartups 7",
        "MaxStartups 1024",
    ]
