"""Whom a pod runs as, and what it may do: the cells of the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mpi_agent.setting_words import Backend
from tests.e2e.mpi_jobs import MpiJob, PodTemplate
from tests.e2e.pods import Pod

__all__ = ["Cell", "PodUser", "job_of"]

_FS_GROUP = 2000
_FOR_THE_GROUP_ALONE = 0o440
_WAIT_LIMIT = "30s"
_NO_CAPABILITIES = "0000000000000000"
_LOOK = (
    "sed -n 's/^Uid:\\t\\([0-9]*\\).*/uid=\\1/p; s/^CapEff:\\t/capabilities=/p;"
    " s/^NoNewPrivs:\\t/confined=/p' /proc/1/status;"
    " touch /here 2>/dev/null && echo root=writable || echo root=read-only;"
    " getent passwd $(id -u) >/dev/null && echo account=known || echo account=unknown"
)


class PodUser(Enum):
    """The users of the matrix; the value is the uid."""

    ROOT = 0
    FIXED = 1000
    ARBITRARY = 1000650000

    @property
    def ssh_mount(self) -> str:
        """Where a manifest for this user has the keys."""
        return "/root/.ssh" if self is PodUser.ROOT else "/home/mpiuser/.ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of the matrix: both the launcher and the workers are like this."""

    user: PodUser
    ssh: Backend
    is_hardened: bool

    def __str__(self) -> str:
        hardening = "hardened" if self.is_hardened else "plain"
        return f"{self.user.name.lower()}-{self.ssh.value}-{hardening}"

    def assert_holds_in(self, pod: Pod) -> None:
        """Check that the pod really is under these restrictions."""
        ended = pod.execute("sh", "-c", _LOOK)
        found = dict(line.split("=") for line in ended.stdout.split())
        assert found["uid"] == str(self.user.value)
        assert found["account"] == ("unknown" if self.user is PodUser.ARBITRARY else "known")
        if self.is_hardened:
            assert found["capabilities"] == _NO_CAPABILITIES
            assert found["confined"] == "1"
            assert found["root"] == "read-only"


def job_of(
    cell: Cell,
    program: tuple[str, ...],
    *,
    variables: tuple[tuple[str, str], ...] = (),
    options: tuple[str, ...] = (),
) -> MpiJob:
    """Return a job of two workers, one rank each, whose pods are all like the cell.

    Args:
        variables: of all pods, beyond what the cell says.
        options: of all pods, in the engine's words.
    """
    uid = cell.user.value or None
    empty_dirs = ("/tmp",) if cell.is_hardened else ()
    guards_keys = cell.is_hardened and cell.user is not PodUser.ROOT
    return MpiJob(
        launcher=PodTemplate(
            argv=("mpi-agent", "launch", "--", *program),
            uid=uid,
            variables=(
                ("MPI_AGENT_SSH", cell.ssh.value),
                ("MPI_AGENT_TIMEOUT", _WAIT_LIMIT),
                *variables,
            ),
            is_hardened=cell.is_hardened,
            empty_dirs=empty_dirs,
            options=options,
        ),
        worker=PodTemplate(
            argv=("mpi-agent", "worker"),
            uid=uid,
            variables=(("MPI_AGENT_SSHD", cell.ssh.value), *variables),
            is_hardened=cell.is_hardened,
            empty_dirs=empty_dirs,
            options=options,
        ),
        workers=2,
        slots=1,
        ssh_mount=cell.user.ssh_mount,
        fs_group=_FS_GROUP if guards_keys else None,
        key_mode=_FOR_THE_GROUP_ALONE if guards_keys else None,
    )
