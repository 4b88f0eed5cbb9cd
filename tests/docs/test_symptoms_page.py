"""docs/reference/symptoms.md is the catalogue of the code."""

from __future__ import annotations

import re
from pathlib import Path

from mpi_agent.explain.symptoms import ALL_SYMPTOMS, THEMES
from mpi_agent.job.symptoms import Symptom

PAGE = Path(__file__).parents[2] / "docs/reference/symptoms.md"


def symptoms_page() -> str:
    """Return the text of the page: one row for each symptom, by theme."""
    lines = [
        "# Symptoms",
        "",
        f"The {len(ALL_SYMPTOMS)} known failures that an ending may name, and how each is told.",
        "`mpi-agent launch` looks for them in the last output when a program did not succeed; "
        "`mpi-agent explain FILE` does in a saved log, of a launcher or of a worker, also with "
        "the timestamps and prefixes of `kubectl logs`.",
        "Ids are public: added, never changed.",
        "Words in capitals are filled in from the output.",
        "",
        "A cause comes first, then signs (what one sees of it), then consequences (what launchers "
        "say when something else went wrong before); among equals, what was said first.",
        "A cause or a sign counts within about a hundred lines before the end, or before the "
        "launcher's own words that a rank or a daemon failed; lines of tracebacks and errors "
        "hardly count.",
        "What is older the program overcame: it is told as what was before.",
        "Neither that nor a consequence is ever called the cause.",
        "Of exceptions the last one before the launcher's words is told, of all else the first.",
        "The verdict is that of a job of which this is the root; where there is none, it does not "
        "tell.",
        "",
        "`explain` tells first how the run ended where `mpi-agent` wrote that into the log, as "
        "text or as JSON, and of a log with several attempts explains the last.",
        "A run that succeeded or was stopped on request needs no cause, so none is looked for.",
        "",
        "| code of `explain` | meaning |",
        "| --- | --- |",
        "| 0 | it tells how the run ended, or names a cause |",
        "| 1 | the log tells neither |",
        "| 65 | the file is no text; decompress it first |",
        "| 66 | the file is missing or cannot be read |",
        "",
        "Of a file above 16 MiB the first 4 and the last 12 MiB are read.",
        "Each symptom has a recorded output in `tests/corpus`, except those that only the agent "
        "knows, from its workers or because it ended the job.",
    ]
    for theme, rows in THEMES:
        lines += ["", f"## {theme}", "", "| id | kind | verdict | cause | remedy | seen with |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        lines += [_row(row.symptom) for row in rows]
    return "\n".join(lines) + "\n"


def _row(symptom: Symptom) -> str:
    verdict = symptom.verdict.value if symptom.verdict else ""
    cells = (
        f"`{symptom.id}`",
        symptom.kind.name.lower(),
        verdict,
        _in_capitals(symptom.cause),
        symptom.remedy,
        symptom.source,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _in_capitals(cause: str) -> str:
    told = re.sub(r"\[([^\]|]*)(?:\|[^\]]*)?\]", r"\1", cause)
    return re.sub(r"\{(\w+)\}", lambda hole: hole[1].upper(), told)


def test_the_symptoms_page_is_the_catalogue_of_the_code() -> None:
    """`python -m tests.docs.test_symptoms_page` writes it anew."""
    assert PAGE.read_text() == symptoms_page()


if __name__ == "__main__":
    PAGE.write_text(symptoms_page())
