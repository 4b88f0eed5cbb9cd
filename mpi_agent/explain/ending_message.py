"""The ending as a message: a sentence for people, then one JSON object for machines.

It has to fit where Kubernetes keeps it. So what is too long is cut value by value, the least
important first, and the object is whole in any case. Its keys are public: added, never changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from mpi_agent import __version__
from mpi_agent.errors import MpiAgentError, StoppedError
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.symptoms import root_of

__all__ = ["MESSAGE_LIMIT_BYTES", "render_ending", "render_ending_message", "render_error_message"]

MESSAGE_LIMIT_BYTES = 4096
"""Source: Kubernetes documentation, "Determine the Reason for Pod Failure", read 2026-11-30: at
most so much of a termination message is kept."""
_SENTENCE_LIMIT_BYTES = 1200
_NOT_STARTED = "not_started"
_CUT = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """What is told, in the order in which it stands there; what is not known is None."""

    verdict: str
    exit_code: int
    summary: str
    cause: str | None = None
    remedy: str | None = None
    symptom: str | None = None
    lost: tuple[str, ...] = ()
    lost_count: int = 0
    attempt: int | None = None
    process_code: int | None = None
    process_signal: int | None = None
    duration_s: float | None = None
    version: str = __version__
    line: str | None = None


_Cut = Callable[[_Message, int], _Message]

_CUTS: tuple[tuple[str, _Cut], ...] = (
    ("line", lambda message, size: replace(message, line=_cut(message.line, size))),
    ("lost", lambda message, size: replace(message, lost=message.lost[:size])),
    ("remedy", lambda message, size: replace(message, remedy=_cut(message.remedy, size))),
    ("cause", lambda message, size: replace(message, cause=_cut(message.cause, size))),
    ("summary", lambda message, size: replace(message, summary=_cut(message.summary, size) or "")),
)
"""What is cut, the least important first, and how it is cut to a size."""


def render_ending(ending: Ending) -> str:
    """Return an ending as one JSON object, whole, in one line of ASCII."""
    return _render(_of_ending(ending))


def render_ending_message(ending: Ending) -> str:
    """Return the termination message of an ending; two lines, without a final newline."""
    return _render_both(_of_ending(ending))


def render_error_message(error: MpiAgentError) -> str:
    """Return the termination message of an agent that could not do its part."""
    is_stop = isinstance(error, StoppedError)
    return _render_both(
        _Message(
            verdict=_name_of(Verdict.STOPPED) if is_stop else _NOT_STARTED,
            exit_code=error.exit_code,
            summary=error.summary,
            remedy=error.hint,
            line=error.evidence[0] if error.evidence else None,
        )
    )


def _of_ending(ending: Ending) -> _Message:
    root = root_of(ending.findings)
    process = ending.process_exit
    return _Message(
        verdict=_name_of(ending.verdict),
        exit_code=ending.exit_code,
        summary=ending.summary,
        cause=root.cause if root else None,
        remedy=root.symptom.remedy if root else None,
        symptom=root.symptom.id if root else None,
        lost=tuple(loss.host for loss in ending.losses),
        lost_count=len(ending.losses),
        attempt=ending.attempt,
        process_code=process.code,
        process_signal=process.signal,
        duration_s=round(process.duration_s, 3),
        line=(root.line or None) if root else None,
    )


def _name_of(verdict: Verdict) -> str:
    return verdict.name.lower()


def _render_both(message: _Message) -> str:
    sentence = _sentence(message)
    room = MESSAGE_LIMIT_BYTES - len(sentence.encode()) - len("\n")
    return f"{sentence}\n{_render(_fitted(message, room))}"


def _sentence(message: _Message) -> str:
    """Return the line for people: what happened, why, and what to do about it."""
    parts = [message.summary]
    if message.cause and message.cause not in message.summary:
        parts.append(f"cause: {message.cause}")
    if message.remedy:
        parts.append(f"hint: {message.remedy}")
    text = _one_line(f"mpi-agent: {'; '.join(parts)}")
    if len(text.encode()) <= _SENTENCE_LIMIT_BYTES:
        return text
    kept = text.encode()[: _SENTENCE_LIMIT_BYTES - len(_CUT)]
    return kept.decode(errors="ignore") + _CUT


def _one_line(text: str) -> str:
    """Return a text without what would end the line or move a cursor, and without surrogates."""
    shown = "".join(c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1] for c in text)
    return " ".join(shown.split())


def _fitted(message: _Message, room: int) -> _Message:
    """Return the message with values cut until it fits."""
    for name, cut in _CUTS:
        if len(_render(message)) <= room:
            break
        value = getattr(message, name)
        fits = [0, len(value or ())]
        while fits[0] < fits[1]:  # the largest size that fits, 0 if none does
            size = (fits[0] + fits[1] + 1) // 2
            if len(_render(cut(message, size))) <= room:
                fits[0] = size
            else:
                fits[1] = size - 1
        message = cut(message, fits[0])
    return message


def _cut(text: str | None, size: int) -> str | None:
    """Return at most so many characters of a text, and a sign that some are missing."""
    if text is None or len(text) <= size:
        return text
    return text[: max(0, size - len(_CUT))] + _CUT[: min(size, len(_CUT))]


def _render(message: _Message) -> str:
    """Return JSON in ASCII; a byte that is no UTF-8 is a backslash escape inside its string.

    Source: RFC 8259, section 8.2: parsers differ on lone surrogates.
    """
    values: Mapping[str, object] = asdict(message)
    return json.dumps({name: _clean(value) for name, value in values.items()})


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return [_clean(item) for item in value] if isinstance(value, tuple) else value
