"""What happens on a worker, one class per thing, and what the launcher hears of it.

Each worker tells its own story to its own log; the classes at the end are the launcher's, which
names the worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.job.events import Event

__all__ = [
    "LauncherGone",
    "LoginAccepted",
    "LoginRefused",
    "MemoryExceeded",
    "RanksEnded",
    "RunBegan",
    "RunOver",
    "SshServerEnded",
    "SshServerSpoke",
    "WorkerDrained",
    "WorkerDraining",
    "WorkerEvicted",
    "WorkerExceededMemory",
    "WorkerNotReady",
    "WorkerReady",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady(Event):
    """The worker's ssh server let us in and answered on its own port.

    Attributes:
        key_fingerprints: of the public keys that it lets in.
    """

    server: str
    port: int
    user: str
    key_fingerprints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNotReady(Event):
    """The worker does not let anybody in, or not any more."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SshServerEnded(Event):
    """The ssh server went away by itself.

    Attributes:
        restart_in_s: None when it is given up.
    """

    why: str
    restart_in_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshServerSpoke(Event):
    """The ssh server said something that is neither of a login let in nor of one refused."""

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAccepted(Event):
    """Somebody logged in.

    Attributes:
        peer: address of the client.
        key_fingerprint: empty where the server does not tell it.
    """

    user: str
    peer: str
    key_fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRefused(Event):
    """Somebody was not let in, or was refused what he asked for once he was in.

    Attributes:
        user: as the client says; empty where it did not come to that.
        peer: address of the client; empty where the server does not tell it.
    """

    user: str
    peer: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan(Event):
    """A launcher told that it runs a program here."""

    run_id: str
    launcher: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOver(Event):
    """A launcher told that its program has ended.

    Attributes:
        exit_code: of the job, or of the attempt where the program is begun again.
        summary: how it ended; empty where the launcher does not say.
    """

    run_id: str
    exit_code: int
    summary: str = ""
    is_begun_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherGone(Event):
    """A launcher has not been heard of, or its container is another one now.

    Attributes:
        ends_in_s: after which the ranks are ended, unless it comes back; 0 at once.
    """

    run_id: str
    launcher: str
    ends_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEnded(Event):
    """Processes of a run were ended by the worker.

    Attributes:
        count: how many there were.
        killed: how many of them had to be killed.
    """

    why: str
    count: int
    killed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryExceeded(Event):
    """The kernel killed processes of this container because they took too much memory.

    Attributes:
        kills: how many since the worker last looked.
        used_bytes: the most that was in use at a time; None where nothing tells it.
        limit_bytes: of the container; None where nothing tells it.
        total_kills: how many since the container began.
    """

    kills: int
    used_bytes: int | None
    limit_bytes: int | None
    total_kills: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDraining(Event):
    """The worker was told to end: it is not ready any more, and its ranks get a signal.

    Attributes:
        grace_s: how long the ranks may take.
    """

    signal_name: str
    drain_signal_name: str
    ranks: int
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDrained(Event):
    """Nothing of any job is left on the worker.

    Attributes:
        killed: how many processes did not end by themselves.
    """

    took_s: float
    killed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvicted(Event):
    """A worker told the launcher that it is told to end."""

    host: str
    signal_name: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExceededMemory(Event):
    """A worker told the launcher that processes there were killed for their memory."""

    host: str
    kills: int
    used_bytes: int | None
    limit_bytes: int | None
