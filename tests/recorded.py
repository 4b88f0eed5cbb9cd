"""Recorded outputs of real launchers, as the agent would have kept them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.stacks import Implementation

__all__ = ["CORPUS", "Recorded", "recorded"]

CORPUS = Path(__file__).parent / "corpus"

_IMPLEMENTATIONS = {
    "ompi4": Implementation.OPEN_MPI,
    "ompi5": Implementation.OPEN_MPI,
    "ompi507": Implementation.OPEN_MPI,
    "mpich4": Implementation.MPICH,
    "mpich5": Implementation.MPICH,
    "impi": Implementation.INTEL_MPI,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded run.

    Attributes:
        code: of mpirun; None where it was still running when the recording ended.
    """

    implementation: Implementation
    code: int | None
    output: Output


def recorded(name: str) -> Recorded:
    """Return what tests/corpus/<name>.txt holds."""
    lines: list[OutputLine] = []
    stream: Stream | None = None
    code = None
    for text in (CORPUS / f"{name}.txt").read_text(errors="surrogateescape").splitlines():
        if told := re.match(r"# exit code: (\d+)", text):
            code = int(told[1])
        if section := re.match(r"# ---- (stdout|stderr)", text):
            stream = Stream(section[1])
        elif stream is not None:
            number = 1 + sum(line.stream is stream for line in lines)
            lines.append(OutputLine(text=text, stream=stream, number=number))
    return Recorded(
        implementation=_IMPLEMENTATIONS[name.split("-")[0]],
        code=code,
        output=Output(lines=tuple(lines)),
    )
