"""The table of all exit codes of `mpi-agent launch`: the reference page is made from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from mpi_agent import errors
from mpi_agent.job.endings import Verdict

__all__ = ["EXIT_CODES", "ExitCode", "Retry", "codes_with"]


class Retry(Enum):
    """Whether beginning anew may end differently."""

    NO = "no"
    MAY = "may"
    UNKNOWN = "ask the program"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """One code, for one reason.

    Attributes:
        error: the exception's name; empty for an ending, which is no error.
        verdict: of an ending; None where the program was never started by mpirun.
    """

    code: int
    when: str
    retry: Retry
    error: type[errors.MpiAgentError] | None = None
    verdict: Verdict | None = None


def _of(error: type[errors.MpiAgentError], when: str, retry: Retry = Retry.NO) -> ExitCode:
    return ExitCode(code=error.exit_code, when=when, retry=retry, error=error)


EXIT_CODES = (
    ExitCode(
        code=0,
        when="the program succeeded on every host of the job",
        retry=Retry.NO,
        verdict=Verdict.SUCCEEDED,
    ),
    ExitCode(code=2, when="unknown option or command", retry=Retry.NO),
    _of(
        errors.HostSourceInvalidError,
        "the source of hosts is there and cannot be understood; the line is named",
    ),
    _of(errors.LogNotTextError, "what `mpi-agent explain` was given is no text"),
    _of(errors.HostSourceMissingError, "nothing tells which hosts belong to the job"),
    _of(
        errors.LogUnreadableError,
        "what `mpi-agent explain` was given is missing or cannot be read",
    ),
    ExitCode(
        code=70,
        when="a bug in the agent; `MPI_AGENT_TRACEBACK=1` shows where",
        retry=Retry.NO,
    ),
    _of(errors.StateDirectoryError, "no directory to keep private files in"),
    _of(errors.ClientKeyError, "the job's private key is missing or cannot be read"),
    _of(
        errors.HostsRefusedError,
        "a host refused the job's key, or showed a host key that is not this job's, for longer "
        "than its grace; or some did at the deadline and nobody was missing",
    ),
    _of(errors.HostKeyError, "a worker's key is missing or cannot be read"),
    _of(errors.SettingsError, "a flag or variable is missing, malformed, or contradicts another"),
    _of(
        errors.SlotsExceededError,
        "more processes than slots, and oversubscription was not asked for",
    ),
    _of(
        errors.HostsUnusedError,
        "the program would run on fewer hosts than the job has, or did: mpirun never dialled some "
        "of them; verdict `launch failed` when it had been started",
    ),
    _of(
        errors.HostsUnfitError,
        "a host is there and cannot do what the job needs (MPI daemon, program, shell, address, "
        "way back), for longer than its grace or at the deadline",
    ),
    _of(errors.StackUnsupportedError, "the installed MPI has no dialect"),
    _of(errors.SshdConfigError, "sshd rejected its configuration"),
    _of(errors.MpirunNotRunnableError, "mpirun or the program was found and cannot be executed"),
    _of(
        errors.MpirunNotFoundError,
        "no mpirun, or no such program; verdict `launch failed` when Open MPI was started and "
        "found none of that name (its own codes for that are 134 and 66)",
    ),
    *(
        ExitCode(
            code=code,
            when=f"{why}, and the program did not end by itself before its grace was over",
            retry=Retry.MAY,
            error=errors.StoppedError,
            verdict=Verdict.STOPPED,
        )
        for code, why in (
            (129, "the terminal was closed (HUP)"),
            (130, "told to stop by INT"),
            (143, "told to stop by TERM"),
        )
    ),
    ExitCode(
        code=141,
        when="what was to be printed on stdout could not be: its reader is gone, or the disk is "
        "full",
        retry=Retry.NO,
    ),
    _of(errors.HostsNotReadyError, "names or ports were still missing at the deadline", Retry.MAY),
    ExitCode(
        code=errors.START_TOO_LATE_CODE,
        when="mpirun's daemons, or the first rank, were not there before `--launch-timeout` was "
        "over",
        retry=Retry.MAY,
        verdict=Verdict.LAUNCH_FAILED,
    ),
    ExitCode(
        code=errors.WORKERS_LOST_CODE,
        when="a worker was lost under the running program, or its MPI daemon was, or it never came "
        "while ranks ran elsewhere; whatever mpirun said",
        retry=Retry.MAY,
        verdict=Verdict.WORKERS_LOST,
    ),
    _of(errors.SshdEndedError, "a worker's ssh server was up and went away", Retry.MAY),
    ExitCode(
        code=errors.RANKS_STALLED_CODE,
        when="ranks did nothing for `--stall-timeout`, and `--stall-action end` was asked for",
        retry=Retry.MAY,
        verdict=Verdict.STALLED,
    ),
)
"""Ordered by code but for stops, which stand together.

The program's own codes are not here: any number, 128 + n for a rank that died of signal n.
"""


def codes_with(retry: Retry) -> frozenset[int]:
    """Return the agent's own codes of which a retry is said so."""
    return frozenset(row.code for row in _of_agent() if row.retry is retry)


def _of_agent() -> Iterable[ExitCode]:
    return (row for row in EXIT_CODES if row.code)
