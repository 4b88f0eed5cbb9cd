"""`mpi-agent explain`: what a saved log says of why a job ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.errors import LogUnreadableError
from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.explain.saved_log import read_log
from mpi_agent.job.output import Output
from mpi_agent.job.symptoms import Finding
from mpi_agent.observe.json_text import JsonObject, render_json
from mpi_agent.setting_words import Form

__all__ = ["command"]

_NOTHING_KNOWN = 1
_STDIN = "-"
_SHOWN_COLUMNS = 400


@click.command("explain", epilog="Example: kubectl logs pi-launcher-x7k2p | mpi-agent explain -")
@settings_options("explain")
@click.argument("file")
def command(call: Call, file: str) -> None:
    """Name the root cause that a saved log shows, what to do, and what followed from it.

    FILE is the log of a launcher or of a worker, `-` what comes on stdin; timestamps and prefixes
    of `kubectl logs` may stand in front of its lines. Exits with 1 when it shows nothing known.
    """
    form = call.given.choice("output", Form)
    output = _read(file)
    findings = find_symptoms(output)
    if form is Form.JSON:
        call.say(render_json(_values(findings), indent=2) + "\n")
    else:
        call.say(_text(findings, output))
    if not findings:
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


def _text(findings: Sequence[Finding], output: Output) -> str:
    if not findings:
        return (
            f"nothing known in {len(output.lines)} lines\n"
            "hint: see the log of the other side too, launcher or worker, and `kubectl describe"
            " pod`\n"
        )
    root, rest = findings[0], findings[1:]
    verdict = root.symptom.verdict
    lines = [
        *([f"verdict: {verdict.value}"] if verdict else []),
        f"cause: {root.cause} [{root.symptom.id}]",
        f"line {root.line_number}: {_shown(root.line)}",
        f"hint: {root.symptom.remedy}",
        *(["then:"] if rest else []),
        *(f"  line {item.line_number}: {item.cause} [{item.symptom.id}]" for item in rest),
    ]
    return "".join(f"{_printable(line)}\n" for line in lines)


def _shown(line: str) -> str:
    text = line.strip()
    return text if len(text) <= _SHOWN_COLUMNS else f"{text[:_SHOWN_COLUMNS]}..."


def _printable(line: str) -> str:
    """Return a line that a terminal shows as one, whatever the log holds."""
    whole = line.encode("utf-8", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in whole)


def _values(findings: Sequence[Finding]) -> JsonObject:
    verdict = findings[0].symptom.verdict if findings else None
    return {
        "verdict": verdict.name.lower() if verdict else None,
        "findings": [_finding_values(finding) for finding in findings],
    }


def _finding_values(finding: Finding) -> JsonObject:
    symptom = finding.symptom
    return {
        "symptom": symptom.id,
        "rank": symptom.rank.name.lower(),
        "verdict": symptom.verdict.name.lower() if symptom.verdict else None,
        "cause": finding.cause,
        "remedy": symptom.remedy,
        "host": finding.host or None,
        "line": finding.line,
        "line_number": finding.line_number,
    }
