"""What workers told the launcher while the program ran, as far as it explains an ending."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RankExit", "WorkerNews"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit:
    """How one rank ended, as its host saw it.

    Attributes:
        code: None where it ended by a signal, or nobody saw how.
        signal: None where it ended by a code, or nobody saw how.
        at_s: when the launcher heard of it, on its monotonic clock.
    """

    rank: int
    code: int | None
    signal: int | None
    at_s: float

    @property
    def is_bad(self) -> bool:
        """Whether it is known to have ended badly."""
        return self.signal is not None or bool(self.code)

    @property
    def shell_code(self) -> int | None:
        """The code, or 128 + the signal; None where nobody saw how it ended."""
        return self.code if self.signal is None else 128 + self.signal


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNews:
    """What one worker told, beside that it lives.

    Only what it said counts. That its channel is open or broken says nothing: a network may break,
    and the launcher cuts what is left of the channels itself.

    Attributes:
        is_evicted: it was told to end.
        ranks: processes of programs there that were told so by it; 0 where none ran by then.
        is_lost: it ended what was left there of the program, ranks or their daemon, so that
            nothing the launcher heard of the program afterwards is to be believed.
        kills: processes that were killed there because they took too much memory.
        used_bytes: the most that was in use when that happened; None where nothing tells it.
        limit_bytes: of its container; None where nothing tells it.
        saw_ranks: ranks of this run were seen there.
        rank_exits: of ranks of this run, in the order in which they were seen to be gone.
        throttled: in how many of the scheduler's periods its container had to pause for its CPU
            limit while the run went on; 0 where nothing tells it.
        periods: how many there were.
    """

    host: str
    is_evicted: bool = False
    ranks: int = 0
    is_lost: bool = False
    kills: int = 0
    used_bytes: int | None = None
    limit_bytes: int | None = None
    saw_ranks: bool = False
    rank_exits: tuple[RankExit, ...] = ()
    throttled: int = 0
    periods: int = 0

    @property
    def is_any(self) -> bool:
        """Whether it told anything that explains an ending."""
        was_short = self.kills > 0 or self.throttled > 0
        return self.is_evicted or self.is_lost or was_short or bool(self.rank_exits)
