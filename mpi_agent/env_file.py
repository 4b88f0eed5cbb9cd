r"""Reading an env file: lines of `NAME=VALUE`, or of `NAME` for a variable that is set here.

Blank lines and comments are skipped, `export ` may stand in front, and nothing is expanded.
A bare value ends at a blank with `#` behind it, or with the line. In single quotes everything
counts as it stands; in double quotes a backslash escapes as in a shell, and `\n`, `\r` and `\t`
mean what they mean in C. What a line holds is never in a message, because it may be a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mpi_agent.errors import SettingsError
from mpi_agent.variable_names import is_variable_name

__all__ = ["FileVariable", "parse_env_file"]

_EXPORT = re.compile(r"\Aexport[ \t]+")
_COMMENT = re.compile(r"[ \t]#")
_AFTER_QUOTE = re.compile(r"[ \t]*(?:[ \t]#.*)?")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\([nrt\\"$`])')
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVariable:
    """One variable that an env file names.

    Attributes:
        value: None where the line gives the name alone.
        place: file and line, for messages.
    """

    name: str
    value: str | None
    place: str


def parse_env_file(text: str, *, path: str) -> tuple[FileVariable, ...]:
    """Return the variables of an env file, in file order; a repeated name stays repeated.

    Raises:
        SettingsError: a line is neither an assignment, a name, a comment nor blank; names the
            file and the line.
    """
    found = []
    for number, line in enumerate(text.lstrip("\ufeff").split("\n"), start=1):
        content = _EXPORT.sub("", line.rstrip("\r").strip(" \t"), count=1)
        if content and not content.startswith("#"):
            place = f'"{path}", line {number}'
            found.append(_parse_line(content, place))
    return tuple(found)


def _parse_line(content: str, place: str) -> FileVariable:
    head, equals, rest = content.partition("=")
    name = head if equals else _COMMENT.split(head, maxsplit=1)[0].rstrip(" \t")
    if not is_variable_name(name):
        where = "what stands before `=`" if equals else "the line"
        raise _bad_line(place, f"{where} is no name of a variable")
    if not equals:
        return FileVariable(name=name, value=None, place=place)
    return FileVariable(name=name, value=_parse_value(rest, place), place=place)


def _parse_value(text: str, place: str) -> str:
    value = text.lstrip(" \t")
    if not value.startswith(("'", '"')):
        return _COMMENT.split(text, maxsplit=1)[0].strip(" \t")
    is_double = value[0] == '"'
    match = (_DOUBLE if is_double else _SINGLE).match(value)
    if match is None:
        raise _bad_line(place, r"the quote is not closed on it; a line break is \n in double ones")
    if not _AFTER_QUOTE.fullmatch(value, match.end()):
        raise _bad_line(place, "something stands behind the closing quote")
    return _ESCAPE.sub(_unescape, match[1]) if is_double else match[1]


def _unescape(match: re.Match[str]) -> str:
    return _LETTERS.get(match[1], match[1])


def _bad_line(place: str, why: str) -> SettingsError:
    return SettingsError(
        f"cannot read the env file {place}: {why}",
        hint="a line is NAME=VALUE, or the NAME of a variable that is set",
    )
