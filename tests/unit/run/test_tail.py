"""What is kept of the output: first and last lines, within bounds, whatever comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.run.tail import LONGEST_LINE_BYTES, Tail

_MIB = 1 << 20


def kept(*chunks: bytes, stream: Stream = Stream.STDOUT) -> Output:
    """Return what a tail of the usual size keeps."""
    tail = Tail()
    for chunk in chunks:
        tail.take(chunk, stream)
    return tail.output


def texts(output: Output) -> list[str]:
    """Return the lines alone."""
    return [line.text for line in output.lines]


def numbered(first: int, last: int) -> bytes:
    """Return a line for each number."""
    return b"".join(b"line %d\n" % number for number in range(first, last + 1))


def test_a_short_output_is_kept_whole_in_its_order() -> None:
    """With stream and number of each line."""
    tail = Tail()

    tail.take(b"one\n", Stream.STDOUT)
    tail.take(b"oops\n", Stream.STDERR)
    tail.take(b"two\n", Stream.STDOUT)

    assert tail.output == Output(
        lines=(
            OutputLine(text="one", stream=Stream.STDOUT, number=1),
            OutputLine(text="oops", stream=Stream.STDERR, number=1),
            OutputLine(text="two", stream=Stream.STDOUT, number=2),
        ),
        total_bytes=13,
    )


def test_nothing_is_an_empty_output() -> None:
    """Of a program that said nothing."""
    assert kept() == Output()


def test_of_a_long_output_the_first_and_the_last_lines_are_kept() -> None:
    """And the rest is counted."""
    output = kept(numbered(1, 5_000), numbered(5_001, 10_000))

    assert [line.number for line in output.lines] == [*range(1, 201), *range(8_001, 10_001)]
    assert output.lines[200].text == "line 8001"
    assert output.left_out == 10_000 - 2_200
    assert output.total_bytes == len(numbered(1, 10_000))


def test_a_flood_on_one_stream_does_not_drown_the_other() -> None:
    """What mpirun says on stderr is worth more than the last second of a chatty program."""
    tail = Tail(first_lines=0)

    tail.take(numbered(1, 3_000), Stream.STDERR)
    tail.take(b"rank 3 is gone\n", Stream.STDERR)
    for _ in range(100):
        tail.take(numbered(1, 5_000), Stream.STDOUT)

    output = tail.output
    said = [line.text for line in output.lines if line.stream is Stream.STDERR]
    assert len(output.lines) == 2_000
    assert said[-1] == "rank 3 is gone"
    assert output.lines[-1].text == "line 5000"
    assert output.left_out == 503_001 - 2_000


def test_long_lines_fill_no_more_than_the_bytes_that_are_kept() -> None:
    """A MiB of last lines, beside the first ones."""
    output = kept(*(b"%0999d\n" % number for number in range(10_000)))

    last = output.lines[200:]
    assert _MIB - 1_000 <= sum(len(line.text) + 1 for line in last) <= _MIB
    assert last[-1].number == 10_000
    assert output.left_out == 10_000 - len(output.lines)


def test_an_endless_progress_bar_is_the_state_that_it_showed_last() -> None:
    """Its updates are neither kept nor counted as lines, and do not push others out."""
    tail = Tail(first_lines=0)

    tail.take(b"cannot open the checkpoint\n", Stream.MERGED)
    for step in range(100_000):
        tail.take(b"\r%7d of 100000 [%s]" % (step, b"#" * 60), Stream.MERGED)
    tail.take(b"\ndone\n", Stream.MERGED)

    assert [text.split(" [")[0] for text in texts(tail.output)] == [
        "cannot open the checkpoint",
        "  99999 of 100000",
        "done",
    ]


def test_bars_that_come_in_one_piece_push_nothing_out() -> None:
    """A slow agent reads many updates at once."""
    bar = b"\r".join(b"%6d/200000" % step for step in range(20_000)) + b"\n"
    tail = Tail(first_lines=0)

    tail.take(b"cannot open the checkpoint\n", Stream.MERGED)
    for _ in range(20):
        tail.take(bar, Stream.MERGED)

    assert texts(tail.output) == ["cannot open the checkpoint", *[" 19999/200000"] * 20]


@pytest.mark.parametrize("cut", range(7), ids=lambda cut: f"cut at {cut}")
def test_a_line_that_ends_by_return_and_newline_is_one_line_wherever_it_is_cut(cut: int) -> None:
    """Terminals end lines so."""
    content = b"abc\r\r\nx"

    assert texts(kept(content[:cut], content[cut:])) == ["abc", "x"]


def test_a_line_without_an_end_is_cut() -> None:
    """Also when it ends at last."""
    chunks = [b"a" * 3_000] * 100

    assert texts(kept(*chunks)) == ["a" * LONGEST_LINE_BYTES]
    assert texts(kept(*chunks, b"end\nnext\n")) == ["a" * LONGEST_LINE_BYTES, "next"]


def test_what_has_no_end_yet_is_the_last_line() -> None:
    """A launcher that dies in the middle of a word has said that too."""
    output = kept(b"one\ntw")

    assert output.lines[-1] == OutputLine(text="tw", stream=Stream.STDOUT, number=2)
    assert output.left_out == 0


def test_bytes_that_are_no_utf_8_can_be_had_back() -> None:
    """Whoever matches text does not meet an error."""
    text = kept(b"caf\xe9 \xc3\xa9\n").lines[0].text

    assert text == "caf\udce9 é"
    assert text.encode("utf-8", "surrogateescape") == b"caf\xe9 \xc3\xa9"


@given(st.lists(st.text("ab\r\n", max_size=8).map(str.encode), max_size=20))
def test_how_output_is_cut_into_pieces_does_not_matter(chunks: list[bytes]) -> None:
    """Pipes cut anywhere."""
    assert kept(*chunks) == kept(b"".join(chunks))


@given(
    st.lists(st.sampled_from([b"a\n", b"b", b"\n", b"c" * 600 + b"\n", b"\r", b"x\ny\nz\n"])),
    st.integers(0, 4),
    st.integers(1, 5),
)
def test_every_line_is_kept_or_counted(chunks: list[bytes], first: int, last: int) -> None:
    """Nothing is lost from the count."""
    tail = Tail(first_lines=first, last_lines=last)
    for chunk in chunks:
        tail.take(chunk, Stream.STDOUT)

    whole = b"".join(chunks)
    lines = whole.count(b"\n") + (whole[-1:] not in (b"", b"\n"))
    output = tail.output
    assert len(output.lines) + output.left_out == lines
    assert len(output.lines) == min(lines, first + last)
    assert [line.number for line in output.lines] == sorted({line.number for line in output.lines})
