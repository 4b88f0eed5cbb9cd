"""`mpi-agent explain`: what a saved log says of why a job ended."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.errors import LogUnreadableError
from mpi_agent.explain.explanation import Explanation, explain_log
from mpi_agent.explain.own_words import OwnEnding
from mpi_agent.explain.saved_log import read_log
from mpi_agent.job.output import Output
from mpi_agent.job.symptoms import Finding
from mpi_agent.observe.json_text import JsonObject, render_json
from mpi_agent.setting_words import Form

__all__ = ["command"]

_NOTHING_KNOWN = 1
_STDIN = "-"
_SHOWN_COLUMNS = 400
_ELSEWHERE = (
    "hint: see the log of the other side too, launcher or worker, and `kubectl describe pod`"
)


@click.command("explain", epilog="Example: kubectl logs pi-launcher-x7k2p | mpi-agent explain -")
@settings_options("explain")
@click.argument("file")
def command(call: Call, file: str) -> None:
    """Name the root cause that a saved log shows, what to do, and what followed from it.

    FILE is the log of a launcher or of a worker, `-` what comes on stdin; timestamps and prefixes
    of `kubectl logs` may stand in front of its lines. Where mpi-agent itself wrote how the run
    ended, that comes first. Exits with 1 when the log tells neither that nor a cause.
    """
    form = call.given.choice("output", Form)
    output = _read(file)
    explanation = explain_log(output)
    if form is Form.JSON:
        call.say(render_json(_values(explanation), indent=2) + "\n")
    else:
        call.say(_text(explanation, output))
    if not explanation.says_why:
        sys.exit(_NOTHING_KNOWN)


def _read(file: str) -> Output:
    try:
        if file == _STDIN:
            return read_log(sys.stdin.buffer, "stdin")
        with Path(file).open("rb") as stream:
            return read_log(stream, file)
    except OSError as error:
        raise LogUnreadableError(
            f'cannot read "{file}": {error.strerror}',
            hint="name a file that `kubectl logs` was saved to, or pipe it and say `-`",
        ) from error


def _text(explanation: Explanation, output: Output) -> str:
    lines = [
        *(_ending_lines(explanation.ending) if explanation.ending is not None else ()),
        *(_root_lines(explanation.root) if explanation.root is not None else ()),
        *_other_lines(explanation),
    ]
    if explanation.verdict is not None and explanation.ending is None:
        lines.insert(0, f"verdict: {explanation.verdict.value}")
    if not explanation.says_why:
        what = "no cause" if lines else "nothing known"
        lines.insert(0, f"{what} in {len(output.lines)} lines")
        lines.append(_ELSEWHERE)
    return "".join(f"{_printable(line)}\n" for line in lines)


def _ending_lines(ending: OwnEnding) -> tuple[str, ...]:
    verdict = f"{ending.verdict.value}, " if ending.verdict is not None else ""
    said = (f"ending: {_shown(ending.summary)}",) if ending.summary else ()
    return (*said, f"verdict: {verdict}code {ending.exit_code} (line {ending.line_number})")


def _root_lines(root: Finding) -> tuple[str, ...]:
    return (
        f"cause: {root.cause} [{root.symptom.id}]",
        f"line {root.line_number}: {_shown(root.line)}",
        f"hint: {root.symptom.remedy}",
    )


def _other_lines(explanation: Explanation) -> list[str]:
    """Return what else is known: what followed, and what the program went on after."""
    others = explanation.others
    parts = (
        ("then" if explanation.root is not None else "seen", [o for o in others if not o.is_past]),
        ("before, and the program went on", [o for o in others if o.is_past]),
    )
    lines = []
    for title, items in parts:
        lines += [f"{title}:"] if items else []
        lines += [f"  line {item.line_number}: {item.cause} [{item.symptom.id}]" for item in items]
    return lines


def _shown(line: str) -> str:
    text = line.strip()
    return text if len(text) <= _SHOWN_COLUMNS else f"{text[:_SHOWN_COLUMNS]}..."


def _printable(line: str) -> str:
    """Return a line that a terminal shows as one, whatever the log holds."""
    whole = line.encode("utf-8", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in whole)


def _values(explanation: Explanation) -> JsonObject:
    ending, root, verdict = explanation.ending, explanation.root, explanation.verdict
    return {
        "ending": _ending_values(ending) if ending is not None else None,
        "verdict": verdict.name.lower() if verdict is not None else None,
        "root": root.symptom.id if root is not None else None,
        "findings": [_finding_values(finding) for finding in explanation.findings],
    }


def _ending_values(ending: OwnEnding) -> JsonObject:
    return {
        "verdict": ending.verdict.name.lower() if ending.verdict is not None else None,
        "exit_code": ending.exit_code,
        "summary": ending.summary,
        "line_number": ending.line_number,
    }


def _finding_values(finding: Finding) -> JsonObject:
    symptom = finding.symptom
    return {
        "symptom": symptom.id,
        "kind": symptom.kind.name.lower(),
        "is_past": finding.is_past,
        "verdict": symptom.verdict.name.lower() if symptom.verdict else None,
        "cause": finding.cause,
        "remedy": symptom.remedy,
        "host": finding.host or None,
        "line": finding.line,
        "line_number": finding.line_number,
    }
