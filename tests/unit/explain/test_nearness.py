"""Which of the findings count: what stands near the end, and the last of several exceptions."""

from __future__ import annotations

import pytest

from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.symptoms import root_of
from tests.unit.explain.logs import an_output

REFUSED = "ssh: connect to host w1 port 22: Connection refused"
CONSEQUENCE = "ORTE was unable to reliably start one or more daemons."
SIGN = "mpirun noticed that process rank 3 with PID 7 on node w2 exited on signal 9 (Killed)."
STEPS = "\n".join(f"step {number} loss 0.1234" for number in range(500))
OUT_OF_GPU = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 15.78 GiB total)"
)
TRACE = "\n".join(f'  File "train.py", line {number}, in step' for number in range(1500))


def test_memory_that_ran_out_while_a_batch_size_was_looked_for_is_not_why_a_rank_crashed() -> None:
    """It went on for 500 steps."""
    found = find_symptoms(an_output(f"{OUT_OF_GPU}\n{STEPS}\n{SIGN}"))

    assert [(item.symptom.id, item.is_past) for item in found] == [
        ("rank-killed", False),
        ("gpu-out-of-memory", True),
    ]


def test_a_port_that_another_try_got_is_not_why_the_loss_was_nan() -> None:
    """Both are said by Python; the last one ended the program."""
    taken = "OSError: [Errno 98] Address already in use"
    found = find_symptoms(an_output(f"{taken}\n{STEPS}\nRuntimeError: loss is nan"))

    root = root_of(found)

    assert root is not None
    assert root.cause == "a rank raised an exception, RuntimeError: loss is nan"
    assert [item.symptom.id for item in found if item.is_past] == ["port-taken"]


def test_a_cause_is_near_though_thousands_of_lines_of_tracebacks_follow() -> None:
    """All ranks tell the same, each at length."""
    (first, *_) = find_symptoms(an_output(f"{STEPS}\n{OUT_OF_GPU}\n{TRACE}\n{SIGN}"))

    assert (first.symptom.id, first.is_past) == ("gpu-out-of-memory", False)


def test_a_cause_is_near_where_it_stands_before_the_launchers_words() -> None:
    """Whatever is written after them."""
    found = find_symptoms(an_output(f"{OUT_OF_GPU}\n{SIGN}\n{STEPS}"))

    assert [item.symptom.id for item in found] == ["gpu-out-of-memory", "rank-killed"]
    assert not [item for item in found if item.is_past]


def test_what_stands_before_a_gap_is_not_near_to_what_comes_after_it() -> None:
    """However few lines are kept: those between were left out."""
    lines = (
        OutputLine(text=OUT_OF_GPU, stream=Stream.MERGED, number=1),
        OutputLine(text="step 90000", stream=Stream.MERGED, number=90_000),
        OutputLine(text=SIGN, stream=Stream.MERGED, number=90_001),
    )

    found = find_symptoms(Output(lines=lines, left_out=89_998))

    assert [item.symptom.id for item in found] == ["rank-killed", "gpu-out-of-memory"]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("ValueError: bad sample", "RuntimeError: the loss is nan"),
        ("Fortran runtime error: End of file", "Fortran runtime error: Bad real number"),
        (
            "terminate called after throwing an instance of 'Busy'",
            "terminate called after throwing an instance of 'std::runtime_error'",
        ),
    ],
)
def test_of_several_exceptions_the_last_one_before_the_launchers_words_is_told(
    first: str, last: str
) -> None:
    """The others were handled, or came of it."""
    found = find_symptoms(an_output(f"{first}\nstep 2\n{last}\n{SIGN}\n{first}"))

    assert (found[0].line, found[0].line_number) == (last, 3)


def test_the_root_is_neither_a_consequence_nor_what_was_overcome() -> None:
    """However alone it stands."""
    assert root_of(find_symptoms(an_output(CONSEQUENCE))) is None
    assert root_of(find_symptoms(an_output(f"{REFUSED}\n{STEPS}"))) is None
    assert root_of(()) is None
