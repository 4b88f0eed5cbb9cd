"""With which codes each launcher ends for reasons of its own; a program may use them too.

A code that stands here tells nothing alone. One that does not is the program's.

Source: Open MPI 4.1.4: 131 and 132 a program that cannot be executed, 134 no such name on PATH, 135
no working directory, 205 a daemon was lost, 243 no ssh, 255 a daemon failed, 9 the ssh client to a
daemon was killed; Open MPI 5.0.7 and 5.0.11: 66 no such name on PATH, 181 no working directory, 183
no such path, 213 and 250 bad usage, 255 a daemon failed; both 1 when they are told to end, and 14
for an error of MPI itself. Hydra: 255 nearly everything, 15 in MPICH when ranks were killed, 137
and 141 in Intel's, 141 for a program that cannot be executed; measured 2026-11. Errors of the
library: MPICH 4.0.2, `Abort(206115599) ... Fatal error in internal_Allreduce`, the low byte of
MPI_ERR_OTHER; Open MPI 5.0.11, `An error occurred in Socket closed`, 2026-11-30: mpirun names that
rank as the first, with `calling "abort"`, in four of six runs whose other rank had died of SIGSEGV
or SIGKILL.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.job.stacks import Implementation

__all__ = ["LauncherCodes", "codes_of"]

_CODES_OF_SHELLS = frozenset({126, 127})


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherCodes:
    """The codes of one launcher.

    Attributes:
        of_start: the program never started.
        of_start_if_said: so as well, where it says so in words; else they are a rank's.
        of_daemon: seen where a daemon was lost, and elsewhere.
        of_its_client: what the client to a daemon ended with, handed on.
        others: anything else that is no rank's code.
        mpi_error: with which the library itself ends a rank, most often because its peer is gone.
    """

    of_start: frozenset[int] = frozenset()
    of_start_if_said: frozenset[int] = frozenset()
    of_daemon: frozenset[int] = frozenset()
    of_its_client: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()
    mpi_error: int | None = None

    @property
    def without_ranks(self) -> frozenset[int]:
        """All with which it may end though no rank ever ran; it may be missing something itself."""
        return self.own | self.of_start_if_said | self.of_its_client | _CODES_OF_SHELLS

    @property
    def own(self) -> frozenset[int]:
        """All that may be the launcher's, but for what it hands on."""
        return self.of_start | self.of_daemon | self.others


_OPEN_MPI = LauncherCodes(
    of_start=frozenset({131, 132, 181, 183, 213, 243, 250, 255}),
    of_start_if_said=frozenset({66, 134, 135}),
    of_daemon=frozenset({205, 255}),
    of_its_client=frozenset({9}),
    others=frozenset({1, 14}),
    mpi_error=14,
)
_MPICH = LauncherCodes(
    of_start=frozenset({255}),
    of_daemon=frozenset({15, 255}),
    others=frozenset({137, 141}),
    mpi_error=15,
)
_INTEL = LauncherCodes(
    of_start=frozenset({141, 255}),
    of_daemon=frozenset({137, 255}),
    others=frozenset({15}),
    mpi_error=15,
)
_NONE = LauncherCodes(of_daemon=frozenset({1, 255}))
"""What scripts make of the failure of something else."""

_TABLE = {
    Implementation.OPEN_MPI: _OPEN_MPI,
    Implementation.SPECTRUM_MPI: _OPEN_MPI,
    Implementation.MPICH: _MPICH,
    Implementation.MVAPICH: _MPICH,
    Implementation.INTEL_MPI: _INTEL,
}


def codes_of(implementation: Implementation | None) -> LauncherCodes:
    """Return the codes of a launcher; those that tell nothing where there is none."""
    return _NONE if implementation is None else _TABLE[implementation]
