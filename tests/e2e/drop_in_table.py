"""Runs the drop-in jobs and prints the table of them for images/README.md.

For maintainers, as root: `python -m tests.e2e.drop_in_table` takes about ten minutes. With names of
MPIs or cases it runs those alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from tests.e2e.base_images import engine_with_bases
from tests.e2e.drop_in_cases import DROP_INS, DropIn
from tests.e2e.engine import Engine, EngineError
from tests.e2e.images import Images, Mpi
from tests.e2e.operator_cluster import OperatorJob

__all__ = ["Outcome", "Versions", "table_of", "versions_in"]

_ASK = "mpirun --version; ssh -V; mpi-agent --version"
_OPENSSH = re.compile(r"OpenSSH_([0-9.]+p[0-9]+)")
_AGENT = re.compile(r"mpi-agent\D*([0-9][0-9.]*)")
_OPEN_MPI = ("Open MPI", re.compile(r"\((?:Open MPI|OpenRTE)\) ([0-9.]+)"))
_OF_MPI: Mapping[Mpi, tuple[str, re.Pattern[str]]] = {
    Mpi.OPEN_MPI_4: _OPEN_MPI,
    Mpi.OPEN_MPI_5: _OPEN_MPI,
    Mpi.MPICH: ("MPICH", re.compile(r"Version:\s+([0-9.]+)")),
    Mpi.INTEL: ("Intel MPI", re.compile(r"Version ([0-9.]+)")),
}
_NOT_RUN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What an image holds, as its own programs say."""

    mpi: str
    openssh: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one case ended with one MPI.

    Attributes:
        lasted_s: from the start of the first container to the end of the launcher and the last
            process of the program; 0 where it failed.
        failure: first line of what was wrong; empty where nothing was.
    """

    mpi: Mpi
    case: DropIn
    lasted_s: float
    failure: str


def versions_in(text: str, mpi: Mpi) -> Versions:
    """Return the versions that `mpirun --version; ssh -V; mpi-agent --version` told.

    Raises:
        ValueError: one of the three is not in the text.
    """
    name, pattern = _OF_MPI[mpi]
    return Versions(
        mpi=f"{name} {_found(pattern, text)}",
        openssh=_found(_OPENSSH, text),
        agent=_found(_AGENT, text),
    )


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"cannot find {pattern.pattern!r} in {text!r}")
    return found.group(1)


def table_of(
    outcomes: Iterable[Outcome], versions: Mapping[Mpi, Versions], *, measured_with: str
) -> str:
    """Return the table, a row for each case and a column for each MPI that was asked."""
    cells = {(outcome.case.name, outcome.mpi): _cell_of(outcome) for outcome in outcomes}
    head = [f"{said.mpi}, OpenSSH {said.openssh}" for said in versions.values()]
    agents = sorted({said.agent for said in versions.values()})
    lines = [
        "Each row is a job for mpi-operator in which the name of the image alone was changed, its "
        "program a C program that computes pi.",
        "`runs` is exit code 0, pi, each rank on the host that the hostfile's order and slots give "
        "it, the ending as the last line of the log, and no process left on the workers; `-` is a "
        "job that is not run with this MPI.",
        "",
        f"{measured_with}, mpi-agent {', '.join(agents)}.",
        "Seconds are from the start of the first container to the last process's end, with the "
        "start of the containers.",
        "",
        _row("job", *head),
        _row(*["---"] * (len(head) + 1)),
    ]
    for case in DROP_INS:
        of_case = [cells.get((case.name, mpi), _NOT_RUN) for mpi in versions]
        if set(of_case) != {_NOT_RUN}:
            lines.append(_row(case.title, *of_case))
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell_of(outcome: Outcome) -> str:
    if outcome.failure:
        return outcome.failure.replace("|", "\\|")
    return f"runs, {outcome.lasted_s:.1f} s"


def _versions_of(engine: Engine, image: str, mpi: Mpi) -> Versions:
    return versions_in(engine.output_of(image, "sh", "-c", f"exec 2>&1; {_ASK}"), mpi)


def _outcome_of(engine: Engine, image: str, mpi: Mpi, case: DropIn, directory: Path) -> Outcome:
    lasted_s, failure = 0.0, ""
    try:
        with OperatorJob(engine, case.job_for(mpi), image, directory) as running:
            began_s = time.monotonic()
            case.assert_runs(running)
            lasted_s = time.monotonic() - began_s
    except (AssertionError, EngineError, TimeoutError) as error:
        failure = str(error).partition("\n")[0] or "ends otherwise"
        print(error, *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
    return Outcome(mpi=mpi, case=case, lasted_s=lasted_s, failure=failure)


def _measured_with(engine: Engine, day: date) -> str:
    podman = engine.do("version", "--format={{.Client.Version}}")
    linux = platform.release().partition("-")[0]
    return (
        f"Measured on {day:%Y-%m-%d} with podman {podman}, Linux {linux} and {os.cpu_count()} cores"
    )


def main() -> None:
    """Run what is asked for, print the table, and fail if a job failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpi", choices=[mpi.value for mpi in Mpi], action="append")
    parser.add_argument("--case", choices=[case.name for case in DROP_INS], action="append")
    wanted = parser.parse_args()
    mpis = [mpi for mpi in Mpi if not wanted.mpi or mpi.value in wanted.mpi]
    cases = [case for case in DROP_INS if not wanted.case or case.name in wanted.case]
    outcomes: list[Outcome] = []
    versions: dict[Mpi, Versions] = {}
    with tempfile.TemporaryDirectory() as path, engine_with_bases(Path(path)) as engine:
        images = Images(engine)
        for mpi in mpis:
            versions[mpi] = _versions_of(engine, images.pi(mpi), mpi)
            for case in (case for case in cases if case.is_of(mpi)):
                outcome = _outcome_of(engine, images.pi(mpi), mpi, case, Path(path))
                print(f"{mpi.value} {case}: {_cell_of(outcome)}", file=sys.stderr, flush=True)
                outcomes.append(outcome)
        measured_with = _measured_with(engine, datetime.now(tz=UTC).date())
    print(table_of(outcomes, versions, measured_with=measured_with), end="")
    if any(outcome.failure for outcome in outcomes):
        sys.exit("cannot call it a drop-in: not every job ran, see above")


if __name__ == "__main__":
    main()
