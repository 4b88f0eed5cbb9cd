"""What never started is told so, by the words in which each version of a launcher says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.endings import Verdict
from mpi_agent.job.output import Output
from tests.builders import a_process_exit
from tests.recorded import recorded
from tests.unit.explain.test_recorded_endings import evidence_of


@pytest.mark.parametrize("launcher", ["ompi4", "ompi5", "ompi507"])
def test_a_misspelt_program_is_said_to_be_missing(launcher: str) -> None:
    """Open MPI's own codes for it would mean SIGABRT, or that nothing tells the hosts."""
    name = f"{launcher}-exe-not-on-path"
    run = replace(evidence_of(name), findings=find_symptoms(recorded(name).output))

    ending = conclude(run)

    assert ending.summary == (
        '"app" never started: "nosuchprog" does not exist or cannot be executed on "pi-launcher"'
        f" (mpirun: exit code {recorded(name).code})"
    )
    assert [finding.symptom.id for finding in ending.findings] == ["executable-missing"]


@pytest.mark.parametrize("code", [66, 134, 135])
def test_a_code_for_a_missing_program_is_a_ranks_where_nothing_is_said_of_it(code: int) -> None:
    """A program may end with 66, or abort."""
    silent = replace(evidence_of("ompi5-exe-not-on-path"), output=Output())

    ending = conclude(replace(silent, process_exit=a_process_exit(code=code)))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)


@pytest.mark.parametrize("name", ["ompi4-wdir-refused", "ompi507-wdir-refused"])
def test_a_working_directory_that_is_missing_is_a_failed_launch(name: str) -> None:
    """Open MPI 5.0.7 calls it a limit of open files."""
    run = replace(evidence_of(name), findings=find_symptoms(recorded(name).output))

    ending = conclude(run)

    assert (ending.verdict, ending.exit_code) == (Verdict.LAUNCH_FAILED, recorded(name).code)
    assert "the working directory" in ending.summary
    assert "does not exist on" in ending.summary
