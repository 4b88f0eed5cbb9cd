"""Every exception class of the agent, in one tree.

An exception means that the agent itself could not do its part; how the program ended is a value
(`job.endings.Ending`), never an exception.

    MpiAgentError                 summary, hint, evidence, exit_code
      SettingsError               78  a flag or variable is missing, malformed, contradicts another
      DiscoveryError
        HostSourceMissingError    66  nothing tells which hosts belong to the job
        HostSourceInvalidError    65  it is there and cannot be understood; carries the line
      ReadinessError                  carries the ReadinessReport
        HostsNotReadyError       200  names or ports still missing at the deadline
        HostsRefusedError         77  a host refused our key for good
        HostsUnfitError           78  a host is there and cannot do what the job needs
      ClientKeyError              77  the launcher's private key is missing or unreadable
      LaunchError
        SlotsExceededError        78  more processes than slots, oversubscription not asked for
        HostsUnusedError          78  the program would run on fewer hosts than the job has
        MpirunNotFoundError      127  no mpirun where it was looked for
        MpirunNotRunnableError   126  found, not executable
        StackUnsupportedError     78  an MPI or a version without a dialect
      WorkerSetupError
        HostKeyError              77  unreadable, or modes that sshd will reject
        SshdConfigError           78  sshd rejected its configuration; carries its words
        SshdEndedError           202  sshd was up and went away
      LogError
        LogUnreadableError        66  a saved log is missing or cannot be read
        LogNotTextError           65  it is no text
      StateDirectoryError         73  no directory to keep private files in
      StoppedError      143, 130, 129  told to stop before the program started

Codes below 128 mean that a retry would end the same way; 200-209 that it may help. They are
public: added, never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi_agent.job.readiness import ReadinessReport

__all__ = [
    "RANKS_STALLED_CODE",
    "START_TOO_LATE_CODE",
    "WORKERS_LOST_CODE",
    "ClientKeyError",
    "DiscoveryError",
    "HostKeyError",
    "HostSourceInvalidError",
    "HostSourceMissingError",
    "HostsNotReadyError",
    "HostsRefusedError",
    "HostsUnfitError",
    "HostsUnusedError",
    "LaunchError",
    "LogError",
    "LogNotTextError",
    "LogUnreadableError",
    "MpiAgentError",
    "MpirunNotFoundError",
    "MpirunNotRunnableError",
    "ReadinessError",
    "SettingsError",
    "SlotsExceededError",
    "SshdConfigError",
    "SshdEndedError",
    "StackUnsupportedError",
    "StateDirectoryError",
    "StoppedError",
    "WorkerSetupError",
]

START_TOO_LATE_CODE = 200
"""Of an ending, which is no error: mpirun did not get the program started in time."""
WORKERS_LOST_CODE = 201
"""Of an ending: a worker vanished under a running program; a retry may help."""
RANKS_STALLED_CODE = 203
"""Of an ending: ranks did nothing for too long; a retry may help."""


class MpiAgentError(Exception):
    """The agent could not do its part.

    Attributes:
        summary: one line, `cannot <do what> <with what>: <why>`.
        hint: one action that is likely to help.
        evidence: what was seen, verbatim, line by line; may be empty.
        exit_code: what the agent exits with when nobody answers the error.
    """

    exit_code = 70

    def __init__(self, summary: str, *, hint: str, evidence: tuple[str, ...] = ()) -> None:
        super().__init__(summary)
        self.summary = summary
        self.hint = hint
        self.evidence = evidence


class SettingsError(MpiAgentError):
    """A flag or variable is missing, malformed or contradicts another."""

    exit_code = 78


class DiscoveryError(MpiAgentError):
    """The hosts of the job could not be found out."""


class HostSourceMissingError(DiscoveryError):
    """Nothing tells which hosts belong to the job."""

    exit_code = 66


class HostSourceInvalidError(DiscoveryError):
    """The source is there and cannot be understood.

    Attributes:
        line_number: 1-based line of the source, or None when the fault is not in one line.
    """

    exit_code = 65

    def __init__(
        self,
        summary: str,
        *,
        hint: str,
        evidence: tuple[str, ...] = (),
        line_number: int | None = None,
    ) -> None:
        super().__init__(summary, hint=hint, evidence=evidence)
        self.line_number = line_number


class ReadinessError(MpiAgentError):
    """The wait ended before every host was ready."""

    def __init__(self, summary: str, *, hint: str, report: ReadinessReport) -> None:
        super().__init__(summary, hint=hint, evidence=())
        self.report = report


class HostsNotReadyError(ReadinessError):
    """Names or ports were still missing at the deadline."""

    exit_code = 200


class HostsRefusedError(ReadinessError):
    """A host refused the job's key, or showed a foreign host key, and will go on so."""

    exit_code = 77


class HostsUnfitError(ReadinessError):
    """A host is there and cannot do what the job needs."""

    exit_code = 78


class ClientKeyError(MpiAgentError):
    """The launcher's private key is missing or cannot be read."""

    exit_code = 77


class LaunchError(MpiAgentError):
    """No command could be built or started."""


class SlotsExceededError(LaunchError):
    """More processes than slots were asked for, and oversubscription was not."""

    exit_code = 78


class HostsUnusedError(LaunchError):
    """The program would run on fewer hosts than the job has, which nobody asked for."""

    exit_code = 78


class MpirunNotFoundError(LaunchError):
    """There is no mpirun where it was looked for."""

    exit_code = 127


class MpirunNotRunnableError(LaunchError):
    """mpirun was found and cannot be executed."""

    exit_code = 126


class StackUnsupportedError(LaunchError):
    """The installed MPI, or its version, has no dialect."""

    exit_code = 78


class WorkerSetupError(MpiAgentError):
    """The worker could not serve ssh."""

    exit_code = 78


class HostKeyError(WorkerSetupError):
    """A key of the worker is missing, unreadable or would be rejected by sshd."""

    exit_code = 77


class SshdConfigError(WorkerSetupError):
    """sshd rejected its configuration; evidence holds its words."""

    exit_code = 78


class SshdEndedError(WorkerSetupError):
    """sshd was up and went away."""

    exit_code = 202


class LogError(MpiAgentError):
    """A saved log cannot be explained."""


class LogUnreadableError(LogError):
    """A saved log is missing or cannot be read."""

    exit_code = 66


class LogNotTextError(LogError):
    """A saved log is no text."""

    exit_code = 65


class StateDirectoryError(MpiAgentError):
    """No directory can hold the agent's private files."""

    exit_code = 73


class StoppedError(MpiAgentError):
    """The agent was told to stop before the program started; `exit_code` is 128 + signal."""

    def __init__(self, summary: str, *, hint: str, signal_number: int) -> None:
        super().__init__(summary, hint=hint)
        self.exit_code = 128 + signal_number
