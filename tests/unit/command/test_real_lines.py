"""Forty command lines as people write them, and what becomes of each under both Open MPIs.

Each file in `lines/` holds one line with what an expert expects of the agent; the argv below it is
written by `python -m tests.unit.command.test_real_lines` and read by whoever changes it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.command.arguments import read_mpirun_line
from mpi_agent.command.build import build_plan
from mpi_agent.command.topics import Family, Topic
from mpi_agent.errors import MpiAgentError
from mpi_agent.job.stacks import MpiStack
from tests.builders import OPEN_MPI_4_STACK, OPEN_MPI_5_STACK, a_host_list, a_launch_request

LINES = sorted((Path(__file__).parent / "lines").glob("*.txt"))
STACKS = {"openmpi4": OPEN_MPI_4_STACK, "openmpi5": OPEN_MPI_5_STACK}
ENVIRON = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots": "8",
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
    "NCCL_DEBUG": "WARN",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}


def outcome(path: Path, stack: MpiStack) -> list[str]:
    """Return the argv, one word a line, and the notes; or the refusal."""
    text = path.read_text()
    hosts = re.search(r"^hosts: (\d+) x (\d+)", text, re.M)
    line = re.search(r"^line: (.*)$", text, re.M)
    assert hosts is not None
    assert line is not None
    words = shlex.split(line[1])
    names: set[str] = set(re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", line[1]))
    environ = {**dict.fromkeys(names, "set"), **ENVIRON}
    request = replace(
        a_launch_request(*words, environ=environ, runs_as_root=True),
        keeps_host_option=any(
            option.family is Family.OPEN_MPI
            for option in read_mpirun_line(tuple(words)).options_of(Topic.HOSTS)
        ),
    )
    try:
        plan = build_plan(request, a_host_list(int(hosts[1]), slots=int(hosts[2])), stack)
    except MpiAgentError as error:
        return [f"refused: {error.summary}", f"hint: {error.hint}"]
    return [*(shlex.quote(word) for word in plan.argv), *(f"# {note}" for note in plan.notes)]


def sections(path: Path) -> dict[str, list[str]]:
    """Return the recorded outcome by the name of the stack."""
    _, *found = re.split(r"^--- (\w+)\n", path.read_text(), flags=re.M)
    return {name: body.splitlines() for name, body in zip(found[::2], found[1::2], strict=True)}


def test_there_are_forty() -> None:
    """No line gets lost."""
    assert len(LINES) == 40


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("path", LINES, ids=lambda path: path.stem)
def test_a_real_line_becomes_what_is_recorded(path: Path, stack: str) -> None:
    """Changed on purpose only."""
    assert outcome(path, STACKS[stack]) == sections(path)[stack]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("path", LINES, ids=lambda path: path.stem)
def test_what_is_to_be_refused_is_refused_and_nothing_else(path: Path, stack: str) -> None:
    """As the expert says in the file."""
    is_refused = "expect: refused" in path.read_text()

    assert outcome(path, STACKS[stack])[0].startswith("refused:") is is_refused


if __name__ == "__main__":
    for file in LINES:
        head, *_ = re.split(r"^--- ", file.read_text(), flags=re.M)
        bodies = (
            f"--- {name}\n" + "".join(f"{word}\n" for word in outcome(file, stack))
            for name, stack in STACKS.items()
        )
        file.write_text(head + "".join(bodies))
