"""How a program is looked after while it runs: typed values from the table of settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpi_agent.errors import SettingsError
from mpi_agent.given import Given
from mpi_agent.job.endings import Verdict
from mpi_agent.setting_words import DrainSignal, StallAction

__all__ = ["OutputSettings", "RestartSettings", "SupervisionSettings"]

_USUAL_VERDICTS = (Verdict.WORKERS_LOST, Verdict.LAUNCH_FAILED)
_VERDICTS_BY_WORD = {
    verdict.name.lower().replace("_", "-"): verdict
    for verdict in Verdict
    if verdict not in (Verdict.SUCCEEDED, Verdict.STOPPED)
}
_LONGEST_DELAY_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartSettings:
    """Whether a program is begun again.

    Attributes:
        window_s: only restarts within this time count; None where all do.
        min_workers: how many ready hosts are enough to begin again; None for all.
    """

    max_restarts: int = 0
    window_s: float | None = None
    first_delay_s: float = 1.0
    longest_delay_s: float = _LONGEST_DELAY_S
    verdicts: tuple[Verdict, ...] = _USUAL_VERDICTS
    min_workers: int | None = None

    @classmethod
    def from_given(cls, given: Given) -> RestartSettings:
        """Return the typed values; raises SettingsError for one that cannot be understood."""
        words = given.names("restart-on")
        return cls(
            max_restarts=given.count_from_0("max-restarts"),
            window_s=given.duration_s("restart-window") or None,
            first_delay_s=given.duration_s("restart-delay"),
            verdicts=tuple(_verdict(word) for word in words) or _USUAL_VERDICTS,
            min_workers=given.count("min-workers") if given.knows("min-workers") else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """What becomes of the ranks' output beside that it is passed through.

    Attributes:
        tags: each rank's number is put in front of its lines.
        log_dir: for a file of each rank's output; None for none.
        log_limit_bytes: of each of these files; None for no limit.
    """

    tags: bool = False
    log_dir: str | None = None
    log_limit_bytes: int | None = None

    @classmethod
    def from_given(cls, given: Given) -> OutputSettings:
        """Return the typed values; raises SettingsError for one that cannot be understood."""
        return cls(
            tags=given.switch("tag"),
            log_dir=given.text("log-dir"),
            log_limit_bytes=given.size_bytes("log-limit") or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionSettings:
    """How a running program is looked after; None is never, where nothing else is said.

    Attributes:
        grace_s: between the first word of a stop and the end of whatever is left.
        stop_signal: what ranks get when the job is told to stop.
        launch_timeout_s: from mpirun's start to ranks on every host; None for a limit that grows
            with the number of hosts, 0 for none.
        straggler_grace_s: how long ranks may go on after one has failed.
        worker_timeout_s: silence after which a worker is lost.
        stall_timeout_s: silence of a program without progress that is reported.
    """

    grace_s: float = 25.0
    stop_signal: DrainSignal = DrainSignal.TERM
    launch_timeout_s: float | None = None
    straggler_grace_s: float | None = None
    worker_timeout_s: float | None = None
    stall_timeout_s: float | None = None
    stall_action: StallAction = StallAction.REPORT
    restarts: RestartSettings = field(default_factory=RestartSettings)

    @classmethod
    def from_given(cls, given: Given) -> SupervisionSettings:
        """Return the typed values; raises SettingsError for one that cannot be understood."""
        return cls(
            grace_s=given.duration_s("grace"),
            stop_signal=given.choice("stop-signal", DrainSignal),
            launch_timeout_s=given.optional_duration_s("launch-timeout"),
            straggler_grace_s=given.duration_s("straggler-grace") or None,
            worker_timeout_s=given.duration_s("worker-timeout") or None,
            stall_timeout_s=given.duration_s("stall-timeout") or None,
            stall_action=given.choice("stall-action", StallAction),
            restarts=RestartSettings.from_given(given),
        )


def _verdict(word: str) -> Verdict:
    verdict = _VERDICTS_BY_WORD.get(word.strip().lower().replace("_", "-"))
    if verdict is None:
        raise SettingsError(
            f'cannot use "{word}" for --restart-on: it is no ending that can be begun again',
            hint=f"name some of {', '.join(_VERDICTS_BY_WORD)}",
        )
    return verdict
