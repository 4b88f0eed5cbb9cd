"""Whether a host still lives: which signs count, and when the lack of them is a loss.

A host is present, suspect or lost. A word on the channel to its agent and an SSH banner are signs
of life, and nothing else is: a paused container still accepts connections, for the kernel does.

    state      sign of life  silence, or a refusal   patience over, and   conclusive sign
                             at a probe              two probes failed
    present    present       suspect                 (suspect first)      lost
    suspect    present       suspect                 lost                 lost
    lost       lost          lost                    lost                 lost
    departed   departed      departed                departed             departed

Rules behind it:
- Silence of 45 % of the timeout makes a suspect, and a suspect is probed about once a second. It is
  lost at 90 % of the timeout: the rest is for hearing which others are lost at the same moment.
- A channel that is broken or silent while banners come is no loss: the agent may be made anew, and
  ranks do not need it. If another container answers on it, the ranks of the former one are gone.
- A refusal tells more than silence, because somebody is there to refuse: nothing but refusals for a
  third of the timeout is enough. An sshd that is made anew refuses for some 40 ms.
- A worker that ends what is left of the program is lost whatever else it says, but mpirun is given
  a third of the timeout to end by itself. One that left with nothing left there has departed.
- Time in which the launcher itself stood still counts for nobody.

Source: Linux, listen(2): connections are accepted up to the backlog without the program's doing;
sshd of OpenSSH 9.2 refused for 40 ms when it was started anew, 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = ["Change", "HostLife", "Life", "Patience", "Reason", "Sign"]

_LEAST_FAILURES = 2


class Life(Enum):
    """What is thought of a host."""

    PRESENT = "present"
    SUSPECT = "suspect"
    LOST = "lost"
    DEPARTED = "departed"
    """it left in good order, with nothing of the program on it; nobody looks for it any more"""


class Sign(Enum):
    """What was seen of a host, on its channel or by a probe."""

    WORD = "a word on its channel"
    BANNER = "an SSH banner"
    SILENT = "no answer on TCP"
    UNREACHABLE = "no route to it"
    MUTE = "connections are accepted and nothing is answered"
    REFUSED = "connection refused"
    CLOSED = "connections are closed at once"
    OTHER_HOST = "another host answers at its address"
    OTHER_CONTAINER = "another container answers in its place"
    ENDING = "it ended what was left of the program"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meaning:
    """What a sign that is none of life is worth.

    Attributes:
        share: of the timeout, for which it must last until the host is lost.
        is_conclusive: no sign of life takes it back.
        needs_time: the sentence says since when.
        is_answer: somebody or something answered, and it was not the host as it was.
    """

    share: float
    is_conclusive: bool = False
    needs_time: bool = True
    is_answer: bool = False


_LOST_AT, _SUSPECT_AT, _REFUSAL = 0.9, 0.45, 1 / 3
_MEANINGS: Mapping[Sign, _Meaning] = {
    Sign.SILENT: _Meaning(share=_LOST_AT),
    Sign.UNREACHABLE: _Meaning(share=_LOST_AT),
    Sign.MUTE: _Meaning(share=_LOST_AT),
    Sign.REFUSED: _Meaning(share=_REFUSAL, is_answer=True),
    Sign.CLOSED: _Meaning(share=_REFUSAL, is_answer=True),
    Sign.OTHER_HOST: _Meaning(share=_REFUSAL, needs_time=False, is_answer=True),
    Sign.OTHER_CONTAINER: _Meaning(share=0.0, is_conclusive=True, needs_time=False),
    Sign.ENDING: _Meaning(share=_REFUSAL, is_conclusive=True, needs_time=False),
}
_LIFE = frozenset({Sign.WORD, Sign.BANNER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Every duration that follows from the one that a user sets, in seconds."""

    timeout_s: float

    @property
    def suspect_s(self) -> float:
        """Silence after which a host is suspected."""
        return self.timeout_s * _SUSPECT_AT

    @property
    def lost_s(self) -> float:
        """Silence after which a suspect is lost."""
        return self.timeout_s * _LOST_AT

    @property
    def calm_pause_s(self) -> float:
        """Between two probes of a host that is present and has no channel."""
        return min(self.timeout_s / 3, 30.0)

    @property
    def suspect_pause_s(self) -> float:
        """Between two probes of a suspect."""
        return min(self.timeout_s / 15, 1.0)

    @property
    def probe_limit_s(self) -> float:
        """What a probe may take; two of them and a pause fit between suspicion and loss."""
        return min(self.timeout_s * 2 / 15, 5.0)

    @property
    def gathering_s(self) -> float:
        """How long it is waited, after one loss, for those that were lost at the same moment."""
        return min(self.timeout_s / 15, 1.0)

    def of(self, sign: Sign) -> float:
        """Return how long a sign must last."""
        return self.timeout_s * _MEANINGS[sign].share


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a host is thought to be gone.

    Attributes:
        sign: what was seen last, None where it only was not heard of.
        since_s: its last sign of life, by the monotonic clock.
        is_evicted: it said that it is told to end, which explains the rest.
    """

    sign: Sign | None
    since_s: float
    is_evicted: bool = False

    @property
    def is_silence(self) -> bool:
        """Whether nobody answered at all, as it is where a network is cut."""
        return not self.is_evicted and self.sign in (None, Sign.SILENT, Sign.UNREACHABLE)

    def clause(self, clock: Callable[[float], str]) -> str:
        """Return it in words.

        Args:
            clock: returns the time of day of a monotonic time, `12:01:07`.
        """
        if self.is_evicted:
            return "it was evicted"
        words = "not heard of" if self.sign is None else self.sign.value
        names_time = self.sign is None or _MEANINGS[self.sign].needs_time
        return f"{words} since {clock(self.since_s)}" if names_time else words


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A host is thought of in another way.

    Attributes:
        life: what it is now.
        reason: None when it is present again.
        silent_s: how long it had given no sign of life.
    """

    host: str
    life: Life
    reason: Reason | None
    silent_s: float


class HostLife:
    """What is thought of one host; times are those of one monotonic clock.

    Args:
        at_s: when it was alive for certain, as the wait found it.

    Attributes:
        is_evicted: it said that it is told to end.
    """

    def __init__(self, host: str, patience: Patience, *, at_s: float) -> None:
        self.host = host
        self.life = Life.PRESENT
        self.is_evicted = False
        self._patience = patience
        self.last_seen_s = at_s
        self._missed_from_s = at_s
        self._silent_from_s = at_s
        self._failures = 0
        self._sign: Sign | None = None  # the last one, where it is none of life
        self._sign_from_s = at_s

    def take(self, sign: Sign, at_s: float) -> None:
        """Note a sign; `look` tells what follows from it.

        A word that is older than what is known already changes nothing.
        """
        if sign in _LIFE:
            if at_s > self.last_seen_s:
                self._was_alive(at_s)
        elif not self._has_concluded:
            if self._sign is None or _is_answer(sign) != _is_answer(self._sign):
                self._sign_from_s = at_s
            self._sign = sign
            self._failures += 1

    def leave(self) -> None:
        """Note that it said farewell with nothing of the program left on it."""
        if self.life is not Life.LOST:
            self.life = Life.DEPARTED

    def excuse(self, late_s: float) -> None:
        """Let a time in which nobody could have heard it count for nothing."""
        self._silent_from_s += late_s
        self._sign_from_s += late_s

    def look(self, now_s: float) -> Change | None:
        """Return what has changed, in one step at a time; None where nothing has."""
        before = self.life
        if before in (Life.LOST, Life.DEPARTED):
            return None
        self.life = self._next(now_s)
        if self.life is before:
            return None
        if self.life is Life.SUSPECT:
            self._missed_from_s = self.last_seen_s
        return self._change(now_s)

    def give_up(self, now_s: float) -> Change | None:
        """Return the loss of a suspect that failed twice, whatever patience is left."""
        if self.life is not Life.SUSPECT or self._failures < _LEAST_FAILURES:
            return None
        self.life = Life.LOST
        return self._change(now_s)

    def _change(self, now_s: float) -> Change:
        reason = Reason(sign=self._sign, since_s=self.last_seen_s, is_evicted=self.is_evicted)
        is_back = self.life is Life.PRESENT
        return Change(
            host=self.host,
            life=self.life,
            reason=None if is_back else reason,
            silent_s=max(0.0, now_s - (self._missed_from_s if is_back else self.last_seen_s)),
        )

    @property
    def _has_concluded(self) -> bool:
        return self._sign is not None and _MEANINGS[self._sign].is_conclusive

    def _was_alive(self, at_s: float) -> None:
        self.last_seen_s = at_s
        self._silent_from_s = max(self._silent_from_s, at_s)
        if not self._has_concluded:
            self._sign, self._failures = None, 0

    def _next(self, now_s: float) -> Life:
        sign, patience = self._sign, self._patience
        silent_s, lasts_s = now_s - self._silent_from_s, now_s - self._sign_from_s
        if sign is not None and _MEANINGS[sign].is_conclusive:
            return Life.LOST if lasts_s >= patience.of(sign) else self.life
        if self.life is Life.SUSPECT and sign is not None and self._failures >= _LEAST_FAILURES:
            is_enough = _is_answer(sign) and lasts_s >= patience.of(sign)
            if is_enough or silent_s >= patience.lost_s:
                return Life.LOST
        if silent_s >= patience.suspect_s or (sign is not None and _is_answer(sign)):
            return Life.SUSPECT
        return Life.PRESENT if sign is None else self.life


def _is_answer(sign: Sign) -> bool:
    return _MEANINGS[sign].is_answer
