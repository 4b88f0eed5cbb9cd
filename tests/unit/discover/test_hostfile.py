"""Hostfiles of every kind, and what is said about bad ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.discover.hostfile import merge_repeated, parse_hostfile
from mpi_agent.errors import HostSourceInvalidError
from mpi_agent.job.hosts import HostEntry

host_names = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8})?", fullmatch=True)


def test_comments_blanks_crlf_and_trailing_blanks_are_read() -> None:
    """People edit hostfiles on every kind of machine."""
    text = "\ufeff# workers\r\n\r\n  pi-worker-0 slots=2   \r\npi-worker-1 slots=3 # big\r\n"

    entries = parse_hostfile(text)

    assert [(e.name, e.slots, e.line_number) for e in entries] == [
        ("pi-worker-0", 2, 3),
        ("pi-worker-1", 3, 4),
    ]


@pytest.mark.parametrize(
    ("line", "name", "slots"),
    [
        ("a slots=4", "a", 4),
        ("a:4", "a", 4),
        ("a", "a", None),
        ("a slots=2 max_slots=4", "a", 2),
        ("10.0.0.7:2", "10.0.0.7", 2),
        ("[fd00::7]:2", "fd00::7", 2),
        ("fd00::7", "fd00::7", None),
        ("mpiuser@a slots=1", "a", 1),
    ],
)
def test_each_dialect_is_understood(line: str, name: str, slots: int | None) -> None:
    """The same path holds Open MPI's form or Hydra's, whoever wrote the manifest."""
    (entry,) = parse_hostfile(line)

    assert (entry.name, entry.slots) == (name, slots)


def test_entry_without_a_count_leaves_the_slots_undecided() -> None:
    """The parser does not guess: settings and variables decide."""
    (entry,) = parse_hostfile("pi-worker-0")

    assert entry.slots is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a slots=0", "at least 1 slot"),
        ("a slots=abc", '"abc" is not a number of slots'),
        ("a slots=-1", '"-1" is not a number of slots'),
        ("a lots=8", '"lots=8" is not understood'),
        ("a b", '"b" is not understood'),
        ("!? slots=1", '"!?" is not a host name'),
        ("a:0", "at least 1 slot"),
    ],
)
def test_a_bad_line_is_named_by_number_and_text(line: str, said: str) -> None:
    """`Hostfile contains a bad entry` helps nobody."""
    with pytest.raises(HostSourceInvalidError) as caught:
        parse_hostfile(f"ok slots=1\n{line}\n", place="/etc/mpi/hostfile")

    assert caught.value.line_number == 2
    assert f'"/etc/mpi/hostfile", line 2, `{line}`: ' in caught.value.summary
    assert said in caught.value.summary
    assert caught.value.exit_code == 65


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_hostfile_without_hosts_is_an_error(text: str) -> None:
    """Mpirun would run everything on the launcher."""
    with pytest.raises(HostSourceInvalidError, match="it has no entries"):
        parse_hostfile(text)


def test_a_repeated_host_is_merged_with_a_note() -> None:
    """Open MPI refuses a host that is repeated with slots."""
    merged, notes = merge_repeated(parse_hostfile("a slots=2\nb\na slots=1\n"))

    assert [(e.name, e.slots) for e in merged] == [("a", 3), ("b", None)]
    assert notes == ('"a" is listed 2 times; merged into one host with 3 slots',)


@given(st.lists(st.tuples(host_names, st.integers(1, 64)), min_size=1, unique_by=lambda p: p[0]))
def test_what_is_written_is_read_back(hosts: list[tuple[str, int]]) -> None:
    """Both forms carry names and counts without loss."""
    open_mpi = "".join(f"{name} slots={slots}\n" for name, slots in hosts)
    hydra = "".join(f"{name}:{slots}\n" for name, slots in hosts)

    expected = [HostEntry(name=n, slots=s, line_number=i) for i, (n, s) in enumerate(hosts, 1)]
    assert list(parse_hostfile(open_mpi)) == expected
    assert list(parse_hostfile(hydra)) == expected
