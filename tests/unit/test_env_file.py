"""Env files: what a line may be, and what is said of one that is none."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.env_file import parse_env_file
from mpi_agent.errors import SettingsError


def values_of(text: str) -> dict[str, str | None]:
    """Return what a file says, by name."""
    return {v.name: v.value for v in parse_env_file(text, path="job.env")}


def test_comments_blank_lines_and_export_are_read() -> None:
    """People write such files for shells too, on every kind of machine."""
    text = "\ufeff# for the ranks\r\n\r\n  export A=1\r\n\texport\tB=2  # two\r\nC\nexport D\n"

    assert values_of(text) == {"A": "1", "B": "2", "C": None, "D": None}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=", ""),
        ("A= b c ", "b c"),
        ("A=b=c", "b=c"),
        ("A=#b", "#b"),
        ("A=a#b", "a#b"),
        ("A= # nothing", ""),
        ("A=$HOME \\n", "$HOME \\n"),
        ("A='a \"b\" \\n $c'  # d", 'a "b" \\n $c'),
        ("A=''", ""),
        ('A="a\\nb\\t\\"c\\" \\\\ \\$d \\x"', 'a\nb\t"c" \\ $d \\x'),
        ('A="#"', "#"),
        ("A=it's", "it's"),
        ("A=\u2028b\x0b\udcff", "\u2028b\x0b\udcff"),
        ("A=ü", "ü"),
    ],
)
def test_a_value_is_read_as_a_shell_would_without_expanding(line: str, value: str) -> None:
    """Quotes count where the value begins with one."""
    assert values_of(line) == {"A": value}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1A=s3cret", "what stands before `=` is no name of a variable"),
        ("A =s3cret", "what stands before `=`"),
        ("=s3cret", "what stands before `=`"),
        ("s3cret/abc+", "the line is no name of a variable"),
        ("A='s3cret", "the quote is not closed"),
        ('A="s3cret\\"', "the quote is not closed"),
        ("A='s3cret'x", "something stands behind the closing quote"),
        ('A="s3cret"#x', "something stands behind the closing quote"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number_and_never_told(line: str, said: str) -> None:
    """It may be a part of a key that somebody pasted."""
    with pytest.raises(SettingsError) as refusal:
        parse_env_file(f"OK=1\n\n{line}\n", path="job.env")

    assert f'cannot read the env file "job.env", line 3: {said}' in refusal.value.summary
    assert "s3cret" not in refusal.value.summary


def test_a_variable_knows_its_place() -> None:
    """For what is refused later on."""
    assert parse_env_file("\nA=1", path="a b")[0].place == '"a b", line 2'


@given(st.dictionaries(st.sampled_from("A B_1 _c".split()), st.text(max_size=9)))
def test_what_is_quoted_comes_back(values: dict[str, str]) -> None:
    """In double quotes, with line breaks and quotes escaped."""
    lines = []
    for name, value in values.items():
        escaped = (
            value.replace("\\", "\\\\")
            .replace('"', '\\"')
            .replace("\n", "\\n")
            .replace("\r", "\\r")
        )
        lines.append(f'{name}="{escaped}"')

    assert values_of("\n".join(lines)) == values


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """No file brings the agent down."""
    with contextlib.suppress(SettingsError):
        assert all(v.place for v in parse_env_file(text, path="x"))
