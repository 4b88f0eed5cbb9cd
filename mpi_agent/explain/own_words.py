"""What the agent itself wrote into a log: how the run ended, where an attempt began.

Launchers write the ending as the last line of their log, as text or as JSON; workers write it, too,
because their logs survive the launcher's. A program may print the same; the agent's comes after it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from mpi_agent.explain.text_search import without_tags
from mpi_agent.job.endings import Verdict
from mpi_agent.job.output import Output

__all__ = ["OwnEnding", "last_attempt", "read_own_ending"]

_ENDED = re.compile(
    r"mpi-agent: (?:attempt \d+: )?(?P<summary>.*)"
    r" \(verdict=(?P<verdict>[A-Z_]+) code=(?P<code>\d+)\)"
    r"|mpi-agent: a run ended run_id=\S+ code=(?P<told_code>\d+)"
    r"(?:; it is begun again)?(?:: (?P<told>.*))?"
)
_ENDED_EVENTS = frozenset({"program_ended", "attempt_ended", "run_over"})
_BEGAN = re.compile(r'mpi-agent: began attempt=\d|\{"at": .{0,100}"event": "attempt_began"')
_QUOTED = re.compile(
    r" {4}(?:remedy|line \d+ of [a-z ]+|then|before|seen): "
    r'|\{"at": .{0,100}"event": "(?:program_ended|attempt_ended)"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEnding:
    """How a run ended, as the agent told it.

    Attributes:
        verdict: None where it was not told, as in the log of a worker.
        summary: empty where only the code was told.
        line_number: 1-based in the log.
    """

    verdict: Verdict | None
    exit_code: int
    summary: str
    line_number: int

    @property
    def needs_no_cause(self) -> bool:
        """Whether nothing failed: the program succeeded, or was stopped on request."""
        return self.exit_code == 0 or self.verdict in (Verdict.SUCCEEDED, Verdict.STOPPED)


def read_own_ending(output: Output) -> OwnEnding | None:
    """Return the last ending that the agent told in a log; None where it told none."""
    for line in reversed(output.lines):
        if "mpi-agent: " not in line.text and '"event": "' not in line.text:
            continue
        text = without_tags(line.text).rstrip()
        if ending := _from_text(text, line.number) or _from_json(text, line.number):
            return ending
    return None


def last_attempt(output: Output) -> Output:
    """Return what stands in a log of the last attempt, without what the agent quotes itself."""
    lines = []
    for line in reversed(output.lines):
        text = without_tags(line.text)
        if _BEGAN.match(text):
            break
        if not _QUOTED.match(text):
            lines.append(line)
    return replace(output, lines=tuple(reversed(lines)))


def _from_text(text: str, number: int) -> OwnEnding | None:
    match = _ENDED.fullmatch(text)
    if match is None:
        return None
    return OwnEnding(
        verdict=Verdict.__members__.get(match["verdict"] or ""),
        exit_code=int(match["code"] or match["told_code"]),
        summary=match["summary"] or match["told"] or "",
        line_number=number,
    )


def _from_json(text: str, number: int) -> OwnEnding | None:
    if not text.startswith("{"):
        return None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("event") not in _ENDED_EVENTS:
        return None
    code, verdict = told.get("exit_code"), told.get("verdict")
    if type(code) is not int:
        return None
    return OwnEnding(
        verdict=Verdict.__members__.get(str(verdict).upper()),
        exit_code=code,
        summary=str(told.get("summary") or ""),
        line_number=number,
    )
