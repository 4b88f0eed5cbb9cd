"""What the answer of a login means: daemon, version, program, and the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.readiness import Obstacle
from mpi_agent.ssh.worker_words import LauncherId
from mpi_agent.wait.equipment import (
    ANSWER_ENDS,
    Equipment,
    EquipmentAnswer,
    LauncherAddress,
    judge_answer,
    question_line,
)
from tests.builders import OPEN_MPI_5_STACK

BACK = LauncherAddress(address="10.1.0.2", port=40000)
EQUIPMENT = Equipment(
    stack=OPEN_MPI_5_STACK, daemon="/usr/bin/prted", daemon_sha256="ab12", program="/app/pi"
)


def judged(
    *lines: str,
    before: str = "",
    begins: bool = True,
    ends: bool = True,
    ended: bool = True,
    back: LauncherAddress | None = None,
) -> EquipmentAnswer:
    """Return what an answer of these lines means."""
    first = "mpi-agent-answer-begins\n" if begins else ""
    last = f"{ANSWER_ENDS}\n" if ends and begins else ""
    said = before + first + "".join(f"{line}\n" for line in lines) + last
    return judge_answer(EQUIPMENT, back, said, ended=ended, limit_s=10)


def test_a_daemon_that_is_the_launchers_own_fits() -> None:
    """Byte for byte the same build."""
    answer = judged("daemon=/usr/bin/prted", "build=same")

    assert answer == EquipmentAnswer(facts=HostFacts())


def test_a_host_that_fits_tells_what_it_has_and_one_that_does_not_need_not() -> None:
    """Nobody starts anything on the second."""
    has = ("nvidia_nodes=2", "quota=150000 100000", "cpus=4", "directory=/tmp")
    facts = HostFacts(gpus=2, cpu_limit=1.5, cpus=4, directories=("/tmp",))

    assert judged("daemon=x", "build=same", *has, "back=0 ", back=BACK).facts == facts
    assert judged("daemon=x", "build=same", *has, "back=124 ", back=BACK).facts is None
    assert judged("daemon=", *has).facts is None


def test_a_daemon_that_is_not_there_is_named_with_its_path() -> None:
    """Bare names are looked for in PATH, absolute ones at their place."""
    answer = judged("daemon=")

    assert answer.obstacle is Obstacle.DAEMON_MISSING
    assert answer.detail == 'there is no "/usr/bin/prted", which Open MPI 5.0.7 calls there'


@pytest.mark.parametrize(
    ("version", "obstacle"),
    [
        ("mpirun (Open MPI) 5.0.7", None),
        ("mpirun (Open MPI) 5.0.3", None),
        ("mpirun (Open MPI) 4.1.4", Obstacle.DAEMON_DIFFERS),
        ("HYDRA build details:\nversion=    Version:  4.0.2", Obstacle.DAEMON_DIFFERS),
        ("some wrapper", None),
    ],
)
def test_another_major_version_is_another_mpi(version: str, obstacle: Obstacle | None) -> None:
    """Within one, versions are told and pass; what is unknown passes with a note."""
    answer = judged("daemon=/usr/bin/prted", f"version={version}")

    assert answer.obstacle is obstacle
    if obstacle is not None:
        assert "the launcher runs Open MPI 5.0.7" in answer.detail
    elif "5.0.7" not in version:
        assert len(answer.notes) == 1


@pytest.mark.parametrize(
    ("libraries", "obstacle"),
    [
        (("libmpi.so.40",), None),
        (("libmpich.so.12",), Obstacle.PROGRAM_DIFFERS),
        (("libmpi.so.12",), Obstacle.PROGRAM_DIFFERS),
        (("libmpi.so.40", "libmpi.so.12"), None),
        (("libmpi.so.99",), None),
        ((), None),
    ],
)
def test_a_program_of_another_mpi_is_refused(
    libraries: tuple[str, ...], obstacle: Obstacle | None
) -> None:
    """It would run as singletons and end with code 0."""
    answer = judged("daemon=x", "build=same", *(f"links={library}" for library in libraries))

    assert answer.obstacle is obstacle


def test_a_login_that_never_runs_its_command_is_told_from_one_that_ends_first() -> None:
    """Start-up files that sleep, and start-up files that exit."""
    silent = judged(begins=False, ended=False, before="welcome\n")
    broken = judged(begins=False, ended=True)

    assert silent.obstacle is Obstacle.SHELL_SILENT
    assert '"welcome"' in silent.detail
    assert broken.obstacle is Obstacle.SHELL_BROKEN


def test_start_up_files_that_print_are_told_and_do_no_harm() -> None:
    """Their words come before ours."""
    answer = judged("daemon=x", "build=same", before="Welcome to\n  node 7\n")

    assert answer.obstacle is None
    assert answer.notes == ('start-up files print "Welcome to node 7" at every login',)


@pytest.mark.parametrize(
    ("line", "obstacle", "words"),
    [
        ("back=0 ", None, ""),
        ("back=unknown", None, "unknown"),
        ("back=1 sh: 1: /dev/tcp/10.1.0.2/40000: No such file or directory", None, "unknown"),
        ("back=124 ", Obstacle.LAUNCHER_UNREACHABLE, "no answer within 5 s"),
        (
            "back=1 bash: connect: Connection refused",
            Obstacle.LAUNCHER_UNREACHABLE,
            "Connection refused",
        ),
    ],
)
def test_a_host_that_cannot_connect_back_is_told_before_mpirun_hangs(
    line: str, obstacle: Obstacle | None, words: str
) -> None:
    """All launchers hang for ever when a daemon never calls back."""
    answer = judged("daemon=x", "build=same", line, back=BACK)

    assert answer.obstacle is obstacle
    assert words in answer.detail + "".join(answer.notes)


def test_an_answer_that_breaks_off_passes_with_a_note() -> None:
    """Nothing is refused because something could not be found out."""
    answer = judged("daemon=x", "build=same", ends=False, ended=False)

    assert answer.obstacle is None
    assert answer.notes


def test_the_question_is_one_line_that_any_login_shell_takes() -> None:
    """Csh takes no line break within quotes, and history expansion no exclamation mark."""
    equipment = replace(EQUIPMENT, ssh_config="/run/mpi agent/ssh_config")
    line = question_line(equipment, BACK)

    assert "\n" not in line
    assert "!" not in line
    arguments = "sh /usr/bin/prted ab12 /app/pi 10.1.0.2 40000 '/run/mpi agent/ssh_config' ''"
    assert line.endswith(f" {arguments}")


def test_who_asks_a_worker_to_end_what_is_left_says_who_he_is() -> None:
    """As one argument that no login shell reads anything into."""
    launcher = LauncherId(name="pi-launcher", container="c0ffee")
    line = question_line(replace(EQUIPMENT, launcher=launcher), None)

    call = '{"verb":"clean","launcher":{"name":"pi-launcher","container":"c0ffee"}}'
    assert line.endswith(f" '{call}'")
    assert "!" not in line


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        ((), ()),
        (("cleaning=yes", 'cleaned={"kind":"cleaned","ended":0,"killed":0}'), ()),
        (
            ("cleaning=yes", 'cleaned={"kind":"cleaned","ended":1,"killed":0}'),
            ("ended 1 process that an earlier launch had left there",),
        ),
        (
            ("cleaning=yes", 'cleaned={"kind":"cleaned","ended":8,"killed":2}'),
            ("ended 8 processes that an earlier launch had left there, 2 of them with KILL",),
        ),
        (
            ("cleaning=yes", "cleaned="),
            ("whether an earlier launch has left processes there is unknown",),
        ),
        (
            ("cleaning=yes", 'cleaned={"kind":"refused","why":"no"}'),
            ("whether an earlier launch has left processes there is unknown",),
        ),
        (
            ("cleaning=yes",),
            ("whether an earlier launch has left processes there is unknown",),
        ),
    ],
)
def test_what_an_earlier_launch_had_left_is_told(
    lines: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    """Nothing where nothing was left; a worker that does not answer is no obstacle."""
    answer = judged("daemon=x", "build=same", *lines)

    assert (answer.obstacle, answer.notes) == (None, notes)
