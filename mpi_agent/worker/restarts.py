"""When an ssh server that ended is started again, and when it is given up.

A server that had let people in and ends, as by the hand of the kernel's OOM killer, is started
again at once. One that never became ready, or that ended right away, failed: it is started again
with a pause that doubles, and given up after some failures in a row. So a fault that heals, as a
port that its last owner is about to free, is waited for, and one that does not is told while
somebody still looks. A server that is killed again and again is never given up if it had been ready
and lived for half a second each time; one that is killed sooner, eight times in a row, is.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Life", "RestartDecision", "RestartPolicy", "decide_restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How patient the worker is with its ssh server.

    The pauses of the default add up to 11.3 s before it is given up, besides what each life took.

    Attributes:
        first_pause_s: after the first failure; it doubles with each further one.
        answer_limit_s: in which a server that was started must answer.
        shortest_life_s: an end before that is a failure even of a server that was ready.
        most_failures: so many in a row and it is given up.
    """

    first_pause_s: float = 0.1
    longest_pause_s: float = 5.0
    answer_limit_s: float = 30.0
    shortest_life_s: float = 0.5
    most_failures: int = 8

    def __post_init__(self) -> None:
        """Raise ValueError for a policy that could not be followed."""
        if not 0 < self.first_pause_s <= self.longest_pause_s:
            raise ValueError("pauses are positive, and the first is not longer than the longest")
        if self.most_failures < 1:
            raise ValueError("there is at least one failure before a server is given up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of the server, from its start to its end.

    Attributes:
        was_ready: it was found to let people in, or at least to answer.
    """

    lived_s: float
    was_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision:
    """What follows from the end of a life.

    Attributes:
        pause_s: until the next start; None when it is given up.
        failures: in a row, this end included; 0 when it was none.
    """

    pause_s: float | None
    failures: int


def decide_restart(policy: RestartPolicy, life: Life, *, failures: int) -> RestartDecision:
    """Return what to do after a life; `failures` is how many in a row there were before it."""
    if life.was_ready and life.lived_s >= policy.shortest_life_s:
        return RestartDecision(pause_s=0.0, failures=0)
    failures += 1
    if failures >= policy.most_failures:
        return RestartDecision(pause_s=None, failures=failures)
    doublings = min(failures - 1, 32)
    pause_s = min(policy.first_pause_s * 2**doublings, policy.longest_pause_s)
    return RestartDecision(pause_s=pause_s, failures=failures)
