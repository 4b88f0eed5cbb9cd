"""What the sentence of an ending calls its cause: near causes and signs alone."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.stacks import Implementation
from tests.builders import a_process_exit
from tests.unit.explain.logs import an_output

STEPS = "\n".join(f"step {number} loss 0.1234" for number in range(500))
OUT_OF_GPU = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 15.78 GiB total)"
)
REFUSED = "ssh: connect to host w1 port 22: Connection refused"
NOISE = "An MPI communication peer process has unexpectedly disconnected."


def ending_of(text: str, code: int = 3) -> Ending:
    """Return the ending of a program that wrote so and ended with a code of its own."""
    evidence = Evidence(
        process_exit=a_process_exit(code=code),
        program='"train"',
        implementation=Implementation.MPICH,
        output=an_output(text),
    )
    return conclude(replace(evidence, findings=find_symptoms(evidence.output)))


def test_the_sentence_names_what_stands_near_the_end() -> None:
    """Behind a colon."""
    assert ending_of(f"{STEPS}\n{OUT_OF_GPU}").summary == (
        '"train" failed with exit code 3 after 1.5 s: '
        "a GPU's memory ran out when 20.00 GiB more were asked for"
    )


def test_the_sentence_does_not_name_what_the_program_overcame() -> None:
    """Nor is that a failed start, which would be tried again."""
    for past in (OUT_OF_GPU, REFUSED):
        ending = ending_of(f"{past}\n{STEPS}")

        assert ending.summary == '"train" failed with exit code 3 after 1.5 s'
        assert ending.verdict is Verdict.PROGRAM_FAILED


def test_the_sentence_does_not_name_a_consequence() -> None:
    """It stands alone, and says nothing of why."""
    assert ending_of(NOISE).summary == '"train" failed with exit code 3 after 1.5 s'
