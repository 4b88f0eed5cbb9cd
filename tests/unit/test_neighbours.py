"""Why a sidecar sees no rank."""

from __future__ import annotations

import pytest

from mpi_agent.neighbours import Neighbour, find_ssh_server, why_ranks_are_unseen

PAUSE = Neighbour(pid=1, parent=0, uid=65535, gid=65535, name="pause", is_readable=False)
SSHD = Neighbour(pid=7, parent=0, uid=0, gid=0, name="sshd", is_readable=False)
OURS = Neighbour(pid=20, parent=0, uid=1000, gid=1000, name="mpi-agent")


def why(
    *neighbours: Neighbour, own_pid: int = 20, own_uid: int = 1000, own_gid: int | None = None
) -> str | None:
    """Return what the sidecar says."""
    gid = own_uid if own_gid is None else own_gid
    return why_ranks_are_unseen(neighbours, own_pid=own_pid, own_uid=own_uid, own_gid=gid)


def below(parent: Neighbour, pid: int, name: str, uid: int, *, readable: bool) -> Neighbour:
    """Return a child of a process, whose group has the uid's number."""
    return Neighbour(pid=pid, parent=parent.pid, uid=uid, gid=uid, name=name, is_readable=readable)


def test_a_sidecar_that_is_pid_1_is_alone() -> None:
    """The pod does not share its processes."""
    said = why(Neighbour(pid=1, parent=0, uid=0, gid=0, name="mpi-agent"), own_pid=1)

    assert said == (
        "the PID namespace is not shared, so ranks are not seen; set shareProcessNamespace: true"
        " in the pod's spec"
    )


@pytest.mark.parametrize(
    "more",
    [
        (),
        (Neighbour(pid=30, parent=0, uid=0, gid=0, name="bash"),),
        (Neighbour(pid=30, parent=20, uid=0, gid=0, name="child"),),
    ],
    ids=["nobody else", "kubectl exec", "what we started"],
)
def test_a_sidecar_below_a_shell_of_its_container_is_alone(more: tuple[Neighbour, ...]) -> None:
    """So it is with somebody who looks into it."""
    shell = Neighbour(pid=1, parent=0, uid=0, gid=0, name="sh")

    said = why(shell, below(shell, 20, "mpi-agent", 0, readable=True), *more)

    assert said is not None
    assert "shareProcessNamespace" in said


def test_on_a_machine_of_its_own_nothing_is_missing() -> None:
    """There the first process has started others too."""
    init = Neighbour(pid=1, parent=0, uid=0, gid=0, name="systemd")
    ours, cron = (below(init, pid, "a", 0, readable=True) for pid in (20, 7))

    assert why(init, ours, cron) is None


def test_a_shared_namespace_without_a_job_is_nothing_to_speak_of() -> None:
    """The pod's first process and an ssh server hide their environment from everybody."""
    assert why(PAUSE, SSHD, OURS) is None


def test_ranks_that_can_be_read_are_nothing_to_speak_of() -> None:
    """Also beside another sidecar, whose environment is no business of ours."""
    envoy = Neighbour(pid=9, parent=0, uid=1337, gid=1337, name="envoy", is_readable=False)
    daemon = below(SSHD, 8, "prted", 1000, readable=True)

    assert why(PAUSE, SSHD, OURS, envoy, daemon, below(daemon, 10, "pi", 1000, readable=True)) is (
        None
    )


@pytest.mark.parametrize("name", ["orted", "prted", "hydra_pmi_proxy", "bash"])
def test_what_a_login_of_another_uid_started_is_named_by_its_uid(name: str) -> None:
    """With what to do."""
    said = why(PAUSE, SSHD, OURS, below(SSHD, 8, name, 0, readable=False))

    assert said == (
        "uid 1000 may not read the environment of processes of uid 0, so their ranks are not seen;"
        " run the sidecar as uid 0, or as root with SYS_PTRACE"
    )


def test_a_daemon_that_left_its_login_is_known_by_its_name() -> None:
    """Its parent is the pod's first process then."""
    daemon = below(PAUSE, 8, "orted", 1001, readable=False)

    said = why(PAUSE, OURS, daemon, below(daemon, 9, "pi", 1001, readable=False))

    assert said is not None
    assert "run the sidecar as uid 1001" in said


def test_the_same_uid_may_lack_capabilities() -> None:
    """As root that dropped all has beside root that did not."""
    said = why(PAUSE, SSHD, OURS, below(SSHD, 8, "orted", 0, readable=False), own_uid=0)

    assert said is not None
    assert said.endswith("give the sidecar the capabilities that they have, or SYS_PTRACE")


def test_the_same_uid_may_lack_the_group() -> None:
    """As in an image without an account of that uid, where the group is 0."""
    said = why(PAUSE, SSHD, OURS, below(SSHD, 8, "prted", 1000, readable=False), own_gid=0)

    assert said == (
        "uid 1000 may not read the environment of processes of uid 1000, so their ranks are not"
        " seen; run the sidecar in their group, with runAsGroup: 1000"
    )


def test_the_group_that_is_advised_is_another_than_ours() -> None:
    """Where some of those that hide are in ours, and hide for another reason."""
    hidden = (
        Neighbour(pid=pid, parent=SSHD.pid, uid=1000, gid=gid, name="prted", is_readable=False)
        for pid, gid in ((8, 0), (9, 2000))
    )

    said = why(PAUSE, SSHD, OURS, *hidden, own_gid=0)

    assert said is not None
    assert said.endswith("with runAsGroup: 2000")


def test_the_uid_that_is_advised_is_another_than_ours() -> None:
    """Both are named as those that hide."""
    hidden = (below(SSHD, uid, "prted", uid, readable=False) for uid in (1000, 2000))

    said = why(PAUSE, SSHD, OURS, *hidden)

    assert said is not None
    assert "of uid 1000, 2000" in said
    assert "run the sidecar as uid 2000" in said


def test_the_ssh_server_is_found_by_its_name() -> None:
    """The first, which listens."""
    session = below(SSHD, 8, "sshd-session", 0, readable=False)

    assert find_ssh_server((PAUSE, OURS, SSHD, session)) == 7
    assert find_ssh_server((PAUSE, OURS)) is None
