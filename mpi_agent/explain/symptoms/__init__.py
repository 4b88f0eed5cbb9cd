"""The catalogue of known failures, by theme.

A line belongs to the first symptom here that knows it, so the more particular stand before the more
general. Ids are public: added, never changed, and never used for something else.

About ten sentences of launchers stand in `explain.launcher_forms` as well: there in their whole
form, because they decide a verdict, here by a piece of them, because a saved log may be cut, tagged
or merged and only a cause is looked for. Who changes one looks at the other.
"""

from __future__ import annotations

from mpi_agent.explain.symptoms import (
    agent,
    daemons,
    fabric,
    gpu,
    launch,
    lost,
    memory,
    names,
    nccl,
    network,
    program,
    ranks,
    ssh,
)
from mpi_agent.explain.symptoms.row import Row
from mpi_agent.job.symptoms import Symptom

__all__ = ["ALL_ROWS", "ALL_SYMPTOMS", "THEMES", "symptom_of"]

THEMES: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("What the agent itself knows", agent.ROWS),
    ("Names", names.ROWS),
    ("Logins", ssh.ROWS),
    ("Daemons on the hosts", daemons.ROWS),
    ("Launchers", launch.ROWS),
    ("Memory, files and limits", memory.ROWS),
    ("GPUs", gpu.ROWS),
    ("Fabrics", fabric.ROWS),
    ("NCCL", nccl.ROWS),
    ("Ranks that do not reach each other", network.ROWS),
    ("The program", program.ROWS),
    ("Ranks that ended", ranks.ROWS),
    ("Hosts that were lost", lost.ROWS),
)
ALL_ROWS: tuple[Row, ...] = tuple(row for _, rows in THEMES for row in rows)
ALL_SYMPTOMS: tuple[Symptom, ...] = tuple(row.symptom for row in ALL_ROWS)

_BY_ID = {symptom.id: symptom for symptom in ALL_SYMPTOMS}
if len(_BY_ID) != len(ALL_SYMPTOMS):
    raise ValueError("two symptoms have one id")


def symptom_of(symptom_id: str) -> Symptom:
    """Return one symptom; KeyError if nobody has that id."""
    return _BY_ID[symptom_id]
