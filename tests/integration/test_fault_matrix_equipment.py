"""What a host lacks is told before mpirun starts: daemon, version, the same MPI, the way back."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mpi_agent.command.stack import detect_stack
from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.job.stacks import Implementation, MpiStack, recognise_version
from mpi_agent.wait.equipment import Equipment
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from mpi_agent.wait.ssh import BackConnection, LoginProbe
from tests.builders import OPEN_MPI_4_STACK, OPEN_MPI_5_STACK
from tests.fault_matrix import (
    SLACK_S,
    Cure,
    Fault,
    Waited,
    assert_healed,
    assert_told,
    hurried,
    probe_of,
    terms_of,
    wait_for,
)
from tests.liars import full_port, nobody
from tests.plain_sshd import SKIPS_BASHRC, running_sshd
from tests.stacks import require_stack
from tests.workers import JobKeys, require_program

pytestmark = pytest.mark.integration

HURRY = 20.0
"""the graces are counted by a clock that runs so many times as fast"""

GRACE_S = LASTING_OBSTACLES[Obstacle.DAEMON_MISSING] / HURRY
OWN_ADDRESS = "127.0.0.1"
"""from which the kernel dials any other address of loopback, so where hosts are to connect back"""

HYDRAS = {
    "mpich4": (Implementation.MPICH, 4, "hydra_pmi_proxy"),
    "mpich5": (Implementation.MPICH, 5, "hydra_pmi_proxy"),
    "intelmpi": (Implementation.INTEL_MPI, 2021, "hydra_bstrap_proxy"),
}
"""what each of tests/stacks.py is, and what it starts on a host"""

USUAL_TOOLS = ("sha256sum", "sed", "grep", "timeout", "bash")


def a_daemon(directory: Path, *, of: str = "mpirun (Open MPI) 4.1.4") -> Path:
    """Make a daemon and the mpirun beside it, which says of what version they are."""
    directory.mkdir(parents=True)
    for name, says in (("daemon", "nothing"), ("mpirun", of)):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho '{says}'\n")
        program.chmod(0o755)
    return directory / "daemon"


def tools(directory: Path, *names: str) -> dict[str, str]:
    """Return variables for a host on which these programs are all there is."""
    directory.mkdir()
    for name in names:
        (directory / name).symlink_to(require_program(name))
    return {**SKIPS_BASHRC, "PATH": str(directory)}


def sha256_of(path: Path) -> str:
    """Return what the launcher knows of its own daemon."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wait_for_equipped(
    root: Path,
    keys: JobKeys,
    equipment: Equipment,
    *,
    back: BackConnection | None = None,
    environ: Mapping[str, str] = SKIPS_BASHRC,
    timeout_s: float = 60,
    cure: Cure | None = None,
    factor: float = HURRY,
) -> Waited:
    """Wait for one host to have this; the clock of the gate runs `factor` times as fast."""
    now_s = hurried(factor)
    with running_sshd(keys, root, environ=environ) as sshd:
        login = LoginProbe(terms_of(keys, root), equipment=equipment, back=back)
        probe = probe_of(login, *sshd.targets, now_s=now_s)
        return wait_for(probe, "w-0", timeout_s=timeout_s * factor, now_s=now_s, cure=cure)


def unfit(obstacle: Obstacle, says: str) -> Fault:
    """Return a fault of a host that let us in."""
    return Fault(stage=Stage.AUTHENTICATED, obstacle=obstacle, says=says, code=78)


@pytest.mark.parametrize(
    ("daemon", "says"),
    [
        ("orted", '"orted" is not in PATH, which Open MPI 4.1.4 calls there'),
        ("/opt/none/bin/orted", 'there is no "/opt/none/bin/orted", which Open MPI 4.1.4 calls'),
    ],
    ids=["in PATH", "by path"],
)
def test_a_daemon_that_is_missing_ends_the_wait(
    root: Path, keys: JobKeys, daemon: str, says: str
) -> None:
    """An image without MPI; mpirun would end with 127, or hang."""
    equipment = Equipment(
        stack=OPEN_MPI_4_STACK, daemon=daemon, daemon_sha256="0" * 64, program=None
    )
    environ = tools(root / "tools", *USUAL_TOOLS)

    waited = wait_for_equipped(root, keys, equipment, environ=environ)

    fault = unfit(Obstacle.DAEMON_MISSING, says)
    assert_told(waited, fault, after_s=GRACE_S, within_s=1.0 + SLACK_S)


def test_a_daemon_of_another_major_version_ends_the_wait(root: Path, keys: JobKeys) -> None:
    """Told by the mpirun beside it."""
    daemon = a_daemon(root / "bin")
    equipment = Equipment(
        stack=OPEN_MPI_5_STACK, daemon=str(daemon), daemon_sha256="0" * 64, program=None
    )

    waited = wait_for_equipped(root, keys, equipment)

    says = f'"{daemon}" is of Open MPI 4.1.4, the launcher runs Open MPI 5.0.7'
    fault = unfit(Obstacle.DAEMON_DIFFERS, says)
    assert_told(waited, fault, after_s=GRACE_S, within_s=1.0 + SLACK_S)


def test_a_daemon_of_another_patch_level_is_a_note(root: Path, keys: JobKeys) -> None:
    """It may work, and who runs it should know."""
    daemon = a_daemon(root / "bin", of="mpirun (Open MPI) 4.1.6")
    equipment = Equipment(
        stack=OPEN_MPI_4_STACK, daemon=str(daemon), daemon_sha256="0" * 64, program=None
    )

    waited = wait_for_equipped(root, keys, equipment)

    assert waited.report.is_ready, waited.detail()
    assert waited.host().notes == ("it has Open MPI 4.1.6, the launcher Open MPI 4.1.4",)


@pytest.mark.parametrize("launchers", [4, 5])
def test_the_real_daemons_of_open_mpi_4_and_5_are_told_apart(
    root: Path, keys: JobKeys, launchers: int
) -> None:
    """Each as the launcher's, the other one as the host's."""
    stacks, daemons = {}, {4: Path("/usr/bin/orted"), 5: Path(sys.executable).with_name("prted")}
    for major, daemon in daemons.items():
        if not daemon.exists():
            pytest.skip(f"{daemon} is not installed")
        stacks[major] = detect_stack(
            f"openmpi{major}", called_as=None, search_path=(str(daemon.parent),)
        )
    own, others = stacks[launchers], stacks[9 - launchers]
    equipment = Equipment(
        stack=own,
        daemon=str(daemons[9 - launchers]),
        daemon_sha256=sha256_of(daemons[launchers]),
        program=None,
    )

    waited = wait_for_equipped(root, keys, equipment)

    says = f"is of {others.title}, the launcher runs {own.title}"
    fault = unfit(Obstacle.DAEMON_DIFFERS, says)
    assert_told(waited, fault, after_s=GRACE_S, within_s=1.0 + SLACK_S)


def hydra_stack(name: str) -> tuple[MpiStack, Path]:
    """Return a Hydra that is installed here and one of its daemons; skip where it is not."""
    mpiexec = require_stack(name).mpirun
    said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=True)
    found = recognise_version(said.stdout)
    assert found is not None
    implementation, major, daemon = HYDRAS[name]
    assert (found[0], found[1][0]) == (implementation, major)
    stack = MpiStack(implementation=found[0], version=found[1], mpirun=str(mpiexec))
    return stack, mpiexec.with_name(daemon)


@pytest.mark.parametrize("name", HYDRAS)
def test_a_daemon_of_hydra_is_told_by_the_mpiexec_beside_it(
    root: Path, keys: JobKeys, name: str
) -> None:
    """Not by an `mpirun` there, which is Open MPI's or a script: Debian, Intel MPI."""
    stack, daemon = hydra_stack(name)
    fits = Equipment(stack=stack, daemon=str(daemon), daemon_sha256="0" * 64, program=None)

    waited = wait_for_equipped(root, keys, fits)

    assert (waited.host().is_ready, waited.host().notes) == (True, ()), waited.detail()


@pytest.mark.parametrize("name", HYDRAS)
def test_a_daemon_of_hydra_is_not_one_of_open_mpi(root: Path, keys: JobKeys, name: str) -> None:
    """The launcher's own version is in the sentence, and what the host has."""
    stack, daemon = hydra_stack(name)
    equipment = Equipment(
        stack=OPEN_MPI_5_STACK, daemon=str(daemon), daemon_sha256="0" * 64, program=None
    )

    waited = wait_for_equipped(root, keys, equipment)

    says = f'"{daemon}" is of {stack.title}, the launcher runs Open MPI 5.0.7'
    fault = unfit(Obstacle.DAEMON_DIFFERS, says)
    assert_told(waited, fault, after_s=GRACE_S, within_s=1.0 + SLACK_S)


def test_a_program_of_another_mpi_ends_the_wait(root: Path, keys: JobKeys) -> None:
    """Every rank would be alone in a world of one, and the job would end with code 0."""
    program = linked_with(root, "libmpich.so.12")
    daemon = a_daemon(root / "bin")
    equipment = Equipment(
        stack=OPEN_MPI_4_STACK,
        daemon=str(daemon),
        daemon_sha256=sha256_of(daemon),
        program=str(program),
    )

    waited = wait_for_equipped(root, keys, equipment)

    says = f'"{program}" is linked with libmpich.so.12 of MPICH, mpirun is of Open MPI 4.1.4'
    fault = unfit(Obstacle.PROGRAM_DIFFERS, says)
    assert_told(waited, fault, after_s=GRACE_S, within_s=1.0 + SLACK_S)


def test_a_program_of_the_same_mpi_passes(root: Path, keys: JobKeys) -> None:
    """Within a family every version finds its peers."""
    daemon = a_daemon(root / "bin")
    equipment = Equipment(
        stack=OPEN_MPI_4_STACK,
        daemon=str(daemon),
        daemon_sha256=sha256_of(daemon),
        program=str(linked_with(root, "libmpi.so.40")),
    )

    waited = wait_for_equipped(root, keys, equipment)

    assert (waited.host().is_ready, waited.host().notes) == (True, ()), waited.detail()


def linked_with(directory: Path, soname: str) -> Path:
    """Return a program that needs this library; skip where nothing links one."""
    compiler = require_program("cc")
    library, program = directory / soname, directory / "program"
    (directory / "mpi.c").write_text("int MPI_Init(void) { return 0; }\n")
    (directory / "main.c").write_text("int MPI_Init(void);\nint main(void) { MPI_Init(); }\n")
    shared = ("-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(library))
    subprocess.run([compiler, *shared, str(directory / "mpi.c")], check=True)
    own = ("-o", str(program), str(directory / "main.c"), str(library))
    subprocess.run([compiler, *own], check=True)
    return program


@pytest.fixture
def any_equipment(root: Path) -> Equipment:
    """Provide a demand that every host of these tests meets."""
    daemon = a_daemon(root / "any" / "bin")
    return Equipment(
        stack=OPEN_MPI_4_STACK,
        daemon=str(daemon),
        daemon_sha256=sha256_of(daemon),
        program=None,
    )


def test_a_launcher_that_refuses_the_way_back_is_told_at_the_deadline(
    root: Path, keys: JobKeys, any_equipment: Equipment
) -> None:
    """At the address from which the host was dialled; a policy may still be on its way."""
    with nobody() as there:
        back = BackConnection(port=there.port)
        waited = wait_for_equipped(root, keys, any_equipment, back=back, timeout_s=1.2)

    says = f"it cannot connect to the launcher at 127.0.0.1 port {there.port}: Connection refused"
    assert_told(waited, unfit(Obstacle.LAUNCHER_UNREACHABLE, says), after_s=1.2)


def test_a_way_back_that_is_dropped_is_told_at_the_deadline(
    root: Path, keys: JobKeys, any_equipment: Equipment
) -> None:
    """A NetworkPolicy; mpirun would hang. The host itself gives up after 5 s."""
    with full_port(at=OWN_ADDRESS) as there:
        back = BackConnection(port=there.port)
        waited = wait_for_equipped(root, keys, any_equipment, back=back, timeout_s=6.0, factor=1.0)

    says = f"cannot connect to the launcher at {there.address} port {there.port}: no answer within"
    assert_told(waited, unfit(Obstacle.LAUNCHER_UNREACHABLE, says), after_s=6.0)


def test_a_way_back_that_opens_is_used(root: Path, keys: JobKeys, any_equipment: Equipment) -> None:
    """A host that is let in already is asked about every two seconds."""
    with socket.socket() as launcher:
        launcher.bind((OWN_ADDRESS, 0))
        port: int = launcher.getsockname()[1]
        waited = wait_for_equipped(
            root,
            keys,
            any_equipment,
            back=BackConnection(port=port),
            factor=1.0,
            cure=Cure(of=Obstacle.LAUNCHER_UNREACHABLE, how=launcher.listen, after=1),
        )

    assert_healed(waited, Obstacle.LAUNCHER_UNREACHABLE, within_s=2.5 + SLACK_S)


@pytest.mark.parametrize("missing", ["bash", "timeout"])
def test_a_host_that_cannot_try_the_way_back_passes_with_a_note(
    root: Path, keys: JobKeys, any_equipment: Equipment, missing: str
) -> None:
    """What cannot be found out holds nobody up."""
    environ = tools(root / "tools", *(name for name in USUAL_TOOLS if name != missing))
    with nobody() as there:
        back = BackConnection(port=there.port)
        waited = wait_for_equipped(root, keys, any_equipment, back=back, environ=environ)

    assert waited.report.is_ready, waited.detail()
    assert waited.host().notes == ("whether it can connect back to the launcher is unknown",)
