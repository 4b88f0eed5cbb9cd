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
    "MOST_NUMBERS",
    "NO_VERB",
    "Alive",
    "Call",
    "Cleaned",
    "Draining",
    "Farewell",
    "GraceOver",
    "LauncherId",
    "Line",
    "Measure",
    "OutOfMemory",
    "Over",
    "PassSignal",
    "Presence",
    "RankGone",
    "Refused",
    "Restarting",
    "Signalled",
    "Sweep",
    "Swept",
    "Throttled",
    "Usage",
    "Verb",
    "Watching",
    "shown",
]

NO_VERB = "there is no verb"
"""How a refusal begins that trying again does not help."""
MOST_NUMBERS = 2000
"""How many numbers one value of a line holds at most, so that the line stays one that is read."""
_MOST_RANKS = 10**10
_MOST_PERIODS = 10**12
_MOST_PROCESSES, _MOST_BYTES, _MOST_SECONDS = 10**6, 1 << 63, 10**9
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "exit_code": (0, 255),
    "ended": (0, _MOST_PROCESSES),
    "killed": (0, _MOST_PROCESSES),
    "left": (0, _MOST_PROCESSES),
    "ranks": (0, _MOST_PROCESSES),
    "kills": (1, _MOST_PROCESSES),
    "total_kills": (0, _MOST_PROCESSES),
    "periods": (0, _MOST_PERIODS),
    "throttled": (0, _MOST_PERIODS),
    "used_bytes": (0, _MOST_BYTES),
    "limit_bytes": (0, _MOST_BYTES),
    "daemons": (0, _MOST_PROCESSES),
    "segments": (0, _MOST_PROCESSES),
    "rank": (0, _MOST_RANKS),
    "code": (0, 255),
    "signal": (1, 64),
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
        run_id: of the run that begins; with `clean` it may be empty, or an older launcher does not
            say it. Printable ASCII, because processes are found by these bytes in their
            environment.
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
        summary: how it ended, for the worker's log; an older launcher does not say.
    """

    kind: ClassVar[str] = "over"
    exit_code: int
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting(Line):
    """The launcher's run has ended and the program is begun again: what is left of it must go.

    It is answered as `over` is, and the worker stays.
    """

    kind: ClassVar[str] = "restarting"
    exit_code: int
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Line):
    """The launcher's program has ended: what is left here of its run must go.

    It is answered by whatever explains an ending, and by `swept` at last. What became of the job is
    only said then, by `over` or `restarting`, because those words belong to the decision.
    """

    kind: ClassVar[str] = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSignal(Line):
    """The ranks of the launcher's run here are to get a signal; answered by `signalled`.

    Attributes:
        signal_name: as `SIGTERM`.
    """

    kind: ClassVar[str] = "pass-signal"
    signal_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Line):
    """The launcher asks what the ranks of its run use; answered by `usage`."""

    kind: ClassVar[str] = "measure"


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
        container: the same as long as the worker's container lives; an older agent does not say.
    """

    kind: ClassVar[str] = "watching"
    worker: str
    lease_s: float | None
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence(Line):
    """What of the launcher's run is here, said when it has changed."""

    kind: ClassVar[str] = "presence"
    daemons: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGone(Line):
    """A rank of the launcher's run ended while others, here or elsewhere, may go on.

    Attributes:
        code: None where it ended by a signal, or nobody saw how.
        signal: None where it ended by a code, or nobody saw how.
    """

    kind: ClassVar[str] = "rank-gone"
    rank: int
    code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled(Line):
    """The worker's answer to `pass-signal`: how many ranks got it."""

    kind: ClassVar[str] = "signalled"
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Line):
    """The worker's answer to `measure`: the ranks here, and what each used until now.

    Attributes:
        cpu_s: of each rank, in the same order.
    """

    kind: ClassVar[str] = "usage"
    rank_numbers: tuple[int, ...]
    cpu_s: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that there is one time for each rank, and that each can be."""
        if len(self.rank_numbers) != len(self.cpu_s) or len(self.cpu_s) > MOST_NUMBERS:
            raise ValueError(f"{len(self.cpu_s)} times cannot be of {len(self.rank_numbers)} ranks")
        if not all(0 <= rank <= _MOST_RANKS for rank in self.rank_numbers):
            raise ValueError(f"rank_numbers cannot be {shown(self.rank_numbers)}")
        if not all(0 <= cpu_s <= _MOST_SECONDS for cpu_s in self.cpu_s):
            raise ValueError(f"cpu_s cannot be {shown(self.cpu_s)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Line):
    """What became of what a run had left here, said before the farewell.

    Attributes:
        ended: processes that are gone.
        killed: how many of those did not end by themselves.
        left: processes that are still there.
        segments: of shared memory, that were removed.
    """

    kind: ClassVar[str] = "swept"
    ended: int
    killed: int
    left: int
    segments: int


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
    """The kernel killed processes of the worker's container because they took too much memory.

    Attributes:
        kills: how many, since the last time that it was said.
        total_kills: how many since the container began, so that whoever hears this twice knows it;
            0 is what an older agent says.
    """

    kind: ClassVar[str] = "out-of-memory"
    kills: int
    used_bytes: int | None
    limit_bytes: int | None
    total_kills: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled(Line):
    """The worker's container used up its CPU limit again and again during the launcher's run.

    It is said at the run's end, and only where that happened often.

    Attributes:
        periods: of the kernel's CPU bandwidth control, in which something wanted to run.
        throttled: those of them in which it had to wait.
    """

    kind: ClassVar[str] = "throttled"
    periods: int
    throttled: int


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
