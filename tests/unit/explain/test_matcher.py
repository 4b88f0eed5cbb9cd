"""Which failures an output shows, in which order, and how long it takes to see."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.symptoms import Kind
from mpi_agent.run.tail import Tail
from tests.unit.explain.corpus_roots import ROOTS
from tests.unit.explain.logs import an_output

CORPUS = Path(__file__).parents[2] / "corpus"
REFUSED = "ssh: connect to host w1 port 22: Connection refused"
CONSEQUENCE = "ORTE was unable to reliably start one or more daemons."
SIGN = "mpirun noticed that process rank 3 with PID 7 on node w2 exited on signal 9 (Killed)."
SIZE = 1 << 18


def ids_in(output: Output) -> list[str]:
    """Return the ids of what an output shows, in order."""
    return [finding.symptom.id for finding in find_symptoms(output)]


def test_an_empty_output_shows_nothing() -> None:
    """Nor does one without a single line."""
    assert find_symptoms(Output()) == ()
    assert find_symptoms(an_output("\n\n")) == ()


def test_a_cause_comes_before_signs_and_signs_before_consequences() -> None:
    """Whatever stood first."""
    output = an_output("\n".join((CONSEQUENCE, SIGN, REFUSED)))

    assert ids_in(output) == ["ssh-refused", "rank-killed", "orte-daemon-not-started"]
    assert [finding.symptom.kind for finding in find_symptoms(output)] == list(Kind)


def test_of_two_causes_the_earlier_one_is_the_root() -> None:
    """The other one may have followed from it."""
    full = "OSError: [Errno 28] No space left on device"

    assert ids_in(an_output(f"{full}\n{REFUSED}")) == ["disk-full", "ssh-refused"]
    assert ids_in(an_output(f"{REFUSED}\n{full}")) == ["ssh-refused", "disk-full"]


def test_a_symptom_is_told_once_with_its_first_line() -> None:
    """A hundred hosts that refuse are one finding."""
    lines = [f"ssh: connect to host w{number} port 22: Connection refused" for number in range(99)]

    (finding,) = find_symptoms(an_output("\n".join(("starting", *lines))))

    assert (finding.host, finding.line, finding.line_number) == ("w0", lines[0], 2)
    assert finding.cause == 'nothing listens on port 22 of "w0"'


def test_the_line_is_told_verbatim_with_its_stream() -> None:
    """With its tag, and with the number it has in that stream."""
    output = an_output("epoch 1", stderr=f"a warning\n[1,0]<stderr>:  {REFUSED}  ")

    (finding,) = find_symptoms(output)

    assert finding.line == f"[1,0]<stderr>:  {REFUSED}  "
    assert (finding.stream, finding.line_number) == (Stream.STDERR, 2)


def test_of_two_streams_the_line_that_came_first_counts() -> None:
    """Not the stream that is looked at first."""
    lines = (
        OutputLine(text=REFUSED, stream=Stream.STDERR, number=1),
        OutputLine(text=REFUSED.replace("w1", "w2"), stream=Stream.STDOUT, number=1),
    )

    (finding,) = find_symptoms(Output(lines=lines))

    assert finding.host == "w1"


def test_of_streams_that_come_merged_the_line_is_the_right_one() -> None:
    """With its number in what was written, whatever was left out between first and last lines."""
    tail = Tail()
    for number in range(1, 9001):
        line = REFUSED if number == 8990 else f"step {number} loss 0.1234"
        tail.take(f"{line}\n".encode(), Stream.MERGED)

    (finding,) = find_symptoms(tail.output)

    assert tail.output.left_out > 0
    assert (finding.line, finding.line_number, finding.stream) == (REFUSED, 8990, Stream.MERGED)


def test_words_on_several_lines_are_told_by_their_first_line_among_those_of_another_stream() -> (
    None
):
    """The number is that within its stream."""
    words = ["a banner", "=   PID 8 RUNNING AT w1 ", "=   EXIT CODE: 11 "]
    lines = [
        line
        for number, text in enumerate(words, 1)
        for line in (
            OutputLine(text=f"step {number}", stream=Stream.STDOUT, number=number),
            OutputLine(text=text, stream=Stream.STDERR, number=number),
        )
    ]

    (finding,) = find_symptoms(Output(lines=tuple(lines)))

    assert (finding.line, finding.line_number) == (words[1], 2)
    assert finding.stream is Stream.STDERR


def test_a_line_belongs_to_the_most_particular_symptom_that_knows_it() -> None:
    """A missing driver is no missing library, even where it is missing twice."""
    line = "OSError: libcuda.so.1: cannot open shared object file: No such file or directory"

    assert ids_in(an_output(f"{line}\n{line}")) == ["gpu-library-missing"]


@pytest.mark.parametrize(
    "words",
    [
        "prterun noticed that process rank 3 with PID 8 on node w1 exited on\nsignal 11 (Segm",
        "=   RANK 3 PID 8 RUNNING AT w1\n=   KILLED BY SIGNAL: 11 (Segmentation fault)",
        "=   PID 8 RUNNING AT w1 \n=   EXIT CODE: 11 ",
    ],
)
def test_words_that_a_launcher_wraps_are_read_as_one(words: str) -> None:
    """PRRTE wraps at 75 columns, Hydra makes a frame."""
    (finding,) = find_symptoms(an_output(words))

    assert (finding.symptom.id, finding.host) == ("rank-segfault", "w1")


TAGS = (
    "[1,3]<stderr>:",
    "[1,3]<stdout>: ",
    "[prterun-pi-launcher-2171@1,3]<stderr>: ",
    "[3] ",
    "2026-11-30T12:00:00Z ",
    "2026-11-30T12:00:00.123456789+01:00 ",
    "[pod/pi-launcher-x7k2p/launcher] ",
    "[pod/pi-launcher-x7k2p/launcher] 2026-11-30T12:00:00.123456789Z ",
    "[pod/pi-launcher-x7k2p/launcher] 2026-11-30T12:00:00Z [1,3]<stderr>: ",
    "\x1b[31m",
)


def test_tags_in_front_of_lines_hide_nothing() -> None:
    """Of ranks, of kubectl, or both: recorded outputs have the same root with them."""
    for (symptom_id, names), tag in zip(ROOTS.items(), itertools.cycle(TAGS), strict=False):
        name = names.split()[0]
        text = (CORPUS / f"{name}.txt").read_text("utf-8", "surrogateescape")
        tagged = "\n".join(tag + line for line in text.split("\n"))

        assert ids_in(an_output(tagged))[0] == symptom_id, (name, tag)


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_does_not_hide_where_a_line_begins(tag: str) -> None:
    """Nor where it goes on in the next one."""
    words = ("ValueError: the loss is nan", "A hostfile that contains multiple definitions")
    text = f"{tag}{words[0]}\n{tag}{words[1]}\n{tag}of the slot count for at least one node:"

    assert ids_in(an_output(text)) == ["slots-defined-twice", "python-exception"]


@pytest.mark.parametrize(
    "text",
    [
        "a" * SIZE,
        " " * SIZE,
        "ssh: connect to host " * (SIZE // 21),
        "[1,2]<stdout>" * (SIZE // 13),
        "{" * SIZE,
        "\n" * 50_000,
        "x.Error: \n" * (SIZE // 10),
        "[proxy:0:1@h] execvp error on file /a (No such file or directorx\n" * (SIZE // 66),
        "OSError: libcuda.so.1: cannot open shared object file: No\n" * (SIZE // 58),
        "PID 1 RUNNING AT h\n=   EXIT CODE: 3\n" * (SIZE // 38),
        "step 17 loss 0.1234 lr 0.001 img/s 812.5\n" * (SIZE // 41),
        "\udcff45%|████      | 17/9000 [00:29<1:22:01]\n" * (SIZE // 60),
    ],
    ids=lambda text: text[:12].strip() or "blank",
)
def test_a_quarter_of_a_mebibyte_is_seen_in_half_a_second_whatever_it_holds(text: str) -> None:
    """Measured 2026-11-30 on one core, for a whole one: 0.05 to 0.25 s."""
    output = an_output(text)
    began = time.process_time()

    find_symptoms(output)

    assert time.process_time() - began < 0.5


def test_what_stands_behind_a_flood_of_near_misses_is_found() -> None:
    """The last places are looked at too."""
    flood = ["ssh: connect to host w1 port 22: something else"] * 5000

    assert ids_in(an_output("\n".join((*flood, REFUSED)))) == ["ssh-refused"]


def test_what_stands_far_out_in_a_long_line_is_found() -> None:
    """A bar that rewrites its line leaves one long line behind."""
    bar = "\r".join(f"{number} of 900" for number in range(900))

    assert ids_in(an_output(f"{bar}\r{REFUSED}")) == ["ssh-refused"]
