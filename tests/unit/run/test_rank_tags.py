"""Output told apart by the launchers' tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.command.dialects import TagForm
from mpi_agent.run.rank_tags import TagReader

NP = 12
TAGS = {
    TagForm.OPEN_MPI_4: b"[1,%d]<stdout>:",
    TagForm.OPEN_MPI_5: b"[1,%d]<stderr>: ",
    TagForm.HYDRA: b"rank %d| ",
}
FORMS = pytest.mark.parametrize("form", TagForm, ids=lambda form: form.name)


def told_apart(form: TagForm | None, chunks: Iterable[bytes]) -> dict[int | None, bytes]:
    """Return what each rank wrote."""
    reader, told = TagReader(form, NP), defaultdict[int | None, bytes](bytes)
    for chunk in chunks:
        for rank, piece in reader.read(chunk):
            told[rank] += piece
    for rank, piece in reader.rest():
        told[rank] += piece
    return dict(told)


def tagged(form: TagForm, rank: int, text: bytes) -> bytes:
    """Return a piece as a launcher writes it: a tag in front of it, and of each line in it."""
    lines = text.split(b"\n")
    last = lines.pop()
    tag = TAGS[form] % rank
    return b"".join(tag + line + b"\n" for line in lines) + (tag + last if last else b"")


@FORMS
def test_pieces_of_lines_come_together_again(form: TagForm) -> None:
    """Launchers tag the rest of a line too, and another rank may stand between."""
    chunks = (
        tagged(form, 0, b"part-"),
        tagged(form, 11, b"whole\n"),
        tagged(form, 0, b"ial\n\nnext\n"),
    )

    assert told_apart(form, chunks) == {0: b"part-ial\n\nnext\n", 11: b"whole\n"}


@FORMS
def test_a_line_without_a_tag_is_the_launchers_own(form: TagForm) -> None:
    """As are those that follow it."""
    chunks = (tagged(form, 3, b"one\n"), b"mpirun has a word\nor two\n", tagged(form, 3, b"two\n"))

    assert told_apart(form, chunks) == {3: b"one\ntwo\n", None: b"mpirun has a word\nor two\n"}


@FORMS
def test_a_bar_is_kept_with_its_returns(form: TagForm) -> None:
    """Each step comes as a piece of its own."""
    chunks = [tagged(form, 0, b"\r%d %%" % step) for step in (0, 50, 100)]

    assert told_apart(form, chunks) == {0: b"\r0 %\r50 %\r100 %"}


@FORMS
def test_a_number_that_no_rank_has_is_text(form: TagForm) -> None:
    """There are ranks 0 to 11."""
    text = TAGS[form] % NP + b"is what it looks like\n"

    assert told_apart(form, [tagged(form, 0, text)]) == {0: text}


@FORMS
def test_what_only_begins_like_a_tag_is_not_lost(form: TagForm) -> None:
    """At the very end too."""
    start = (TAGS[form] % 7)[:-1]

    assert told_apart(form, [tagged(form, 0, start)]) == {0: start}
    assert told_apart(form, [start]) == {None: start}


def test_without_tags_all_is_nobodys() -> None:
    """A script's output, say."""
    assert told_apart(None, [b"[1,0]<stdout>:a\n", b"b"]) == {None: b"[1,0]<stdout>:a\nb"}


@given(
    form=st.sampled_from(TagForm),
    pieces=st.lists(
        st.tuples(
            st.integers(0, NP - 1),
            st.text(alphabet="[]1,0:<>stdoutrank| \r\n", min_size=1).map(str.encode),
        )
    ),
    cuts=st.lists(st.integers(1, 40)),
)
def test_each_rank_gets_its_bytes_however_the_stream_is_cut(
    form: TagForm, pieces: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    """Unless it writes another rank's tag."""
    wrote = defaultdict[int | None, bytes](bytes)
    for rank, text in pieces:
        wrote[rank] += text
    stream = b"".join(tagged(form, rank, text) for rank, text in pieces)
    chunks = []
    for cut in (*cuts, len(stream)):
        chunks.append(stream[:cut])
        stream = stream[cut:]

    told = told_apart(form, chunks)

    if not any(told_apart(form, [text]).keys() - {None} for text in wrote.values()):
        assert told == dict(wrote)


def test_what_comes_behind_a_gap_is_nobodys_until_the_next_tag() -> None:
    """It may be the end of another rank's line."""
    reader = TagReader(TagForm.HYDRA, NP)
    reader.read(b"rank 1| begin of a line, and ra")

    assert reader.rest() == [(1, b"ra")]
    assert reader.read(b"of another\nrank 0| line\n") == [(None, b"of another\n"), (0, b"line\n")]
