"""What launcher and worker can say to each other, as values; `worker_protocol` makes lines of them.

A launcher is known by its name and its container: when the same name comes back in another
container, what the former left behind belongs to nobody any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

__all__ = [
    "NO_VERB",
    "Alive",
    "Call",
    "Cleaned",
    "Draining",
    "Farewell",
    "GraceOver",
    "LauncherId",
    "Line",
    "OutOfMemory",
    "Over",
    "Refused",
    "Verb",
    "Watching",
    "shown",
]

NO_VERB = "there is no verb"
"""How a refusal begins that trying again does not help."""
_MOST_PROCESSES, _MOST_BYTES, _MOST_SECONDS = 10**6, 1 << 63, 10**9
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "exit_code": (0, 255),
    "ended": (0, _MOST_PROCESSES),
    "killed": (0, _MOST_PROCESSES),
    "left": (0, _MOST_PROCESSES),
    "ranks": (0, _MOST_PROCESSES),
    "kills": (1, _MOST_PROCESSES),
    "used_bytes": (0, _MOST_BYTES),
    "limit_bytes": (0, _MOST_BYTES),
    "grace_s": (0, _MOST_SECONDS),
    "lease_s": (0, _MOST_SECONDS),
}
"""Of the numbers in lines, by their names; what is beyond is no line of this protocol."""


class Verb(Enum):
    """What a worker can be asked."""

    STATUS = "status"
    CLEAN = "clean"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherId:
    """Who a launcher is.

    Attributes:
        name: of its host.
        container: the same for every process in one container, another one after a restart.
    """

    name: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The first line of a conversation.

    Attributes:
        launcher: None for a person, who is no run's next launcher either.
        run_id: of the run that begins, with `watch`; empty otherwise. Printable ASCII, because
            processes are found by these bytes in their environment.
    """

    verb: Verb
    launcher: LauncherId | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a conversation after the first."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Check each number: one that cannot be would make whoever reads it stumble later."""
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name, None)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} cannot be {shown(value)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive(Line):
    """The launcher is still there; the worker says the same in return."""

    kind: ClassVar[str] = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(Line):
    """The launcher's job has ended.

    Attributes:
        exit_code: of the job, 0 to 255.
    """

    kind: ClassVar[str] = "over"
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned(Line):
    """The worker's answer to `clean`: what became of the processes of nobody's runs.

    Attributes:
        ended: how many are gone.
        killed: how many of those did not end by themselves.
        left: how many are still there, and are told to end again and again; an older agent does
            not say.
    """

    kind: ClassVar[str] = "cleaned"
    ended: int
    killed: int
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching(Line):
    """The worker's answer to `watch`.

    Attributes:
        lease_s: how long its ranks live without a word of the launcher; None for ever.
    """

    kind: ClassVar[str] = "watching"
    worker: str
    lease_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining(Line):
    """The worker is told to end, and how long its ranks may take.

    Attributes:
        ranks: how many were told so; 0 where no program runs on this worker.
    """

    kind: ClassVar[str] = "draining"
    signal_name: str
    grace_s: float
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceOver(Line):
    """The worker ends what is left here of the launcher's run, now: ranks, or their daemon.

    It is said before the first of them is ended, because mpirun may say anything afterwards.
    """

    kind: ClassVar[str] = "grace-over"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory(Line):
    """The kernel killed processes of the worker's container because they took too much memory."""

    kind: ClassVar[str] = "out-of-memory"
    kills: int
    used_bytes: int | None
    limit_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell(Line):
    """The worker's last line: all it had to tell has been told."""

    kind: ClassVar[str] = "farewell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Line):
    """The worker's last line to whoever said what it does not take."""

    kind: ClassVar[str] = "refused"
    why: str

    @property
    def is_for_ever(self) -> bool:
        """Whether that worker does not know what was asked; any other reason may pass."""
        return self.why.startswith(NO_VERB)


def shown(value: object) -> str:
    """Return a value as a sentence may quote it, cut to a length that one can read."""
    shown = repr(value[:60] if isinstance(value, bytes | str) else value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
