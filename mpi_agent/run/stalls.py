"""A program that says nothing for long: who of its ranks is busy, who is idle, and whether it ends.

Ranks are measured when half of the time is over and when all of it is, and from then on once in
half of it. That is reported once, and again when it got worse: no rank is idle, some are, all are.
Output makes it all begin anew. Where no rank is idle the program is called silent, not stalled. It
is ended only if asked for, and only when every host tells that no rank uses its CPU: ranks that
wait for a message burn theirs, and so do healthy ones that compute for hours in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.events import EventSink, RanksStalled
from mpi_agent.job.run_reports import HostUsage
from mpi_agent.run.rank_activity import RankActivity, activity_between
from mpi_agent.setting_words import StallAction

__all__ = ["Measure", "stalled"]

Measure = Callable[[], Awaitable[tuple[HostUsage, ...]]]
"""Asks hosts what their ranks used until now."""

_SHORTEST_PAUSE_S = 0.05


async def stalled(
    last_output_at_s: Callable[[], float],
    measure: Measure,
    *,
    hosts: Sequence[str],
    timeout_s: float | None,
    action: StallAction,
    emit: EventSink,
) -> Alarm:
    """Return that no rank makes progress, where that ends the program; else never.

    Args:
        last_output_at_s: when the program wrote last, or was started; on the loop's clock.
        hosts: those on which ranks run, or all of the job.
        timeout_s: how long the silence lasts that is reported; None for never.
    """
    if timeout_s is None:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")
    while True:
        silence = _Silence(measure, hosts, last_output_at_s, timeout_s)
        if alarm := await silence.watch(action, emit):
            return alarm


class _Silence:
    """The time since one piece of output: what is measured in it, and what was said of it."""

    def __init__(
        self,
        measure: Measure,
        hosts: Sequence[str],
        last_output_at_s: Callable[[], float],
        timeout_s: float,
    ) -> None:
        self._measure = measure
        self._hosts = hosts
        self._last_output_at_s = last_output_at_s
        self._output_at_s = last_output_at_s()
        self._timeout_s = timeout_s
        self._worst_said = -1

    @property
    def _is_broken(self) -> bool:
        return self._last_output_at_s() != self._output_at_s

    async def watch(self, action: StallAction, emit: EventSink) -> Alarm | None:
        """Return why the program must end, None once it wrote something; tell what is found."""
        half_s = self._timeout_s / 2
        await _sleep_until(self._output_at_s + half_s)
        if self._is_broken:
            return None
        usage, measured_at_s = await self._measure(), _now_s()
        while not self._is_broken:
            await _sleep_until(max(self._output_at_s + self._timeout_s, measured_at_s + half_s))
            before, began_at_s = usage, measured_at_s
            usage, measured_at_s = await self._measure(), _now_s()
            if self._is_broken:
                break
            activity = activity_between(
                before, usage, hosts=self._hosts, took_s=measured_at_s - began_at_s
            )
            if alarm := self._judge(activity, action, emit):
                return alarm
        return None

    def _judge(self, activity: RankActivity, action: StallAction, emit: EventSink) -> Alarm | None:
        silent_s = _now_s() - self._output_at_s
        ends = action is StallAction.END and activity.is_stalled
        badness = activity.may_be_stuck + activity.is_stalled
        if ends or badness > self._worst_said:
            self._worst_said = badness
            emit(
                RanksStalled(
                    why=activity.sentence,
                    silent_s=silent_s,
                    ends_program=ends,
                    is_stalled=activity.may_be_stuck,
                )
            )
        why = f"nothing was written for {silent_s:.0f} s and {activity.sentence}"
        return Alarm(kind=AlarmKind.RANKS_STALLED, why=why) if ends else None


async def _sleep_until(at_s: float) -> None:
    await asyncio.sleep(max(_SHORTEST_PAUSE_S, at_s - _now_s()))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
