"""How a program ended: the bare exit, and what it means."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a symptom names a verdict
    from mpi_agent.job.alarms import HostLoss
    from mpi_agent.job.symptoms import Finding

__all__ = ["Ending", "ProcessExit", "Verdict", "signal_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """What the kernel told about a child that ended; exactly one of code and signal is set."""

    pid: int
    code: int | None
    signal: int | None
    started_at_s: float
    ended_at_s: float

    def __post_init__(self) -> None:
        if (self.code is None) == (self.signal is None):
            raise ValueError("a process ends by a code or by a signal")

    @property
    def duration_s(self) -> float:
        """Seconds between start and end."""
        return self.ended_at_s - self.started_at_s

    @property
    def returncode(self) -> int:
        """The code, or minus the signal, as Python's subprocess tells it."""
        return self.code if self.code is not None else -(self.signal or 0)

    @property
    def shell_code(self) -> int:
        """The code a shell would report: the code itself, or 128 + signal."""
        return self.code if self.code is not None else 128 + (self.signal or 0)


class Verdict(Enum):
    """The class of an ending."""

    SUCCEEDED = "succeeded"
    PROGRAM_FAILED = "program failed"
    LAUNCH_FAILED = "launch failed"
    WORKERS_LOST = "workers lost"
    STALLED = "ranks stalled"
    STOPPED = "stopped on request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the program ended, in one line.

    Attributes:
        exit_code: what the agent exits with.
        process_exit: mpirun's own exit, kept as it was.
        summary: one line for the log and the termination message.
        findings: known symptoms, the root cause first; may be empty.
        losses: hosts that were lost while the program ran.
        attempt: which run of the program it was, from 1.
    """

    verdict: Verdict
    exit_code: int
    process_exit: ProcessExit
    summary: str
    findings: tuple[Finding, ...] = ()
    losses: tuple[HostLoss, ...] = ()
    attempt: int = 1


def signal_name(number: int) -> str:
    """Return `SIGTERM`, or `signal 35` for one without a name, as most real-time signals are."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
