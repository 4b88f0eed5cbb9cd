"""Measures the whole matrix of faults and writes docs/reference/faults.md.

For maintainers, as root: `python -m tests.e2e.fault_table` takes about fifteen minutes. With names
of MPIs or faults it measures those alone, and prints them instead.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.e2e.base_images import engine_with_bases
from tests.e2e.engine import Engine
from tests.e2e.fault_stage import Seen, new_stage
from tests.e2e.faults import FAULTS, LAUNCHER_GONE_S, STRAGGLER_GRACE_S, Fault
from tests.e2e.images import REPOSITORY, Images, Mpi

__all__ = ["Row", "page_of"]

_PAGE = REPOSITORY / "docs/reference/faults.md"
_SLACK = 10.0
_VERSION = re.compile(r"the MPI is ([^,\n]+)")
_JOB = re.compile(r"pi-[0-9a-f]{6}")
_HEAD = "\n".join(
    (
        "# What happens when something fails",
        "",
        "Each row is a real job: a launcher and three workers with two slots each, in containers, "
        "`mpi-agent` on all of them.",
        "Six ranks compute together; then the fault is brought about, on the last worker "
        "(`pi-worker-2`, rank 4) unless it is the launcher's.",
        "",
        "- **noticed**: seconds from the fault to the first word of the launcher's agent.",
        "- **ended**: seconds from the fault to the end of the launcher's container, "
        "with everything swept.",
        "- **left**: processes of the job on all hosts then. A host that is frozen or cut off "
        "is out of reach; of it counts what is left when it runs on, or is still cut off, "
        f"and the {LAUNCHER_GONE_S:g} s of its `--launcher-gone` are over.",
        "",
        f"In these jobs `--launcher-gone` is {LAUNCHER_GONE_S:g} s (default 60 s), "
        f"`--straggler-grace` {STRAGGLER_GRACE_S:g} s (default 30 s), and `--grace` 5 s "
        "(default 25 s), or 60 s where SIGINT comes twice; `--worker-timeout` is the default, "
        "15 s.",
        "",
        "The page is written by `python -m tests.e2e.fault_table`; "
        "`tests/e2e/test_faults.py` tests the same faults.",
        "",
    )
)
_TABLE_HEAD = """
| fault | noticed | ended | verdict | code | left | sentence |
| --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured cell."""

    mpi: Mpi
    fault: Fault
    seen: Seen


def page_of(rows: Iterable[Row], *, measured_with: str) -> str:
    """Return the reference page of rows that are grouped by their MPI."""
    text = f"{_HEAD}\n{measured_with}\n"
    mpi = None
    for row in rows:
        if row.mpi is not mpi:
            mpi = row.mpi
            text += f"\n## {_version_in(row.seen) or mpi.value}\n{_TABLE_HEAD}"
        text += _line_of(row)
    return text


def _line_of(row: Row) -> str:
    seen = row.seen
    cells = (
        row.fault.title,
        _seconds(seen.noticed_s),
        _seconds(seen.ended_s),
        f"`{seen.verdict}`" if seen.verdict else "none",
        "none" if seen.code is None else str(seen.code),
        str(seen.left + seen.left_on_victim),
        _without_names(seen.sentence).replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |\n"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


def _without_names(sentence: str) -> str:
    return _JOB.sub("pi", sentence).replace(".pi.default.svc", "").removeprefix("mpi-agent: ")


def _version_in(seen: Seen) -> str:
    found = _VERSION.search(seen.output)
    return found.group(1) if found else ""


def _measure(
    engine: Engine, mpis: Iterable[Mpi], faults: tuple[Fault, ...], directory: Path, slack: float
) -> Iterator[Row]:
    images = Images(engine)
    for mpi in mpis:
        with new_stage(engine, images, mpi, directory) as stage:
            for fault in faults:
                try:
                    seen = stage.bring_about(fault, slack=slack)
                except AssertionError as error:
                    print(f"{mpi.value}-{fault}: {error}", file=sys.stderr, flush=True)
                    continue
                row = Row(mpi=mpi, fault=fault, seen=seen)
                print(f"{mpi.value}: {_line_of(row)}", end="", file=sys.stderr, flush=True)
                yield row


def main() -> None:
    """Measure; write the page only when all of it was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpi", choices=[mpi.value for mpi in Mpi], action="append")
    parser.add_argument("--fault", choices=[str(fault) for fault in FAULTS], action="append")
    parser.add_argument("--slack", type=float, default=_SLACK)
    wanted = parser.parse_args()
    mpis = [mpi for mpi in Mpi if not wanted.mpi or mpi.value in wanted.mpi]
    faults = tuple(one for one in FAULTS if not wanted.fault or one.name in wanted.fault)
    with tempfile.TemporaryDirectory() as path, engine_with_bases(Path(path)) as engine:
        rows = list(_measure(engine, mpis, faults, Path(path), wanted.slack))
        podman = engine.do("version", "--format={{.Client.Version}}")
    measured_with = (
        f"Measured on {datetime.now(tz=UTC):%Y-%m-%d} with podman {podman}, crun and "
        f"Linux {platform.release().partition('-')[0]}, on {os.cpu_count()} cores."
    )
    page = page_of(rows, measured_with=measured_with)
    if len(rows) == len(tuple(Mpi)) * len(FAULTS):
        _PAGE.write_text(page)
    elif wanted.mpi or wanted.fault:
        print(page)
    else:
        sys.exit("cannot write the page: not every fault could be measured, see above")


if __name__ == "__main__":
    main()
