"""Which parts of a command line are values of variables, and a line without them, for people.

Left out is what stands behind an option that sets a variable, behind the program `env`, and
wherever a NAME=VALUE has a name that tells of a secret, also amid a word, as in ssh arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from mpi_agent.variable_names import is_secret, is_variable_name

__all__ = ["HIDDEN", "HeldValue", "held_values", "secret_values", "shown_words"]

HIDDEN = "..."

_TAKES_A_PAIR = frozenset({"genv", "env", "append-env", "prepend-env"})
"""`-genv NAME VALUE`, or in one word `NAME=VALUE`."""
_TAKES_ONE_WORD = frozenset({"x", "set-env"})
"""`-x NAME=VALUE`, or `-x NAME`."""
_OPTIONS_OF_ENV_WITH_A_VALUE = frozenset({"-u", "--unset", "-C", "--chdir"})
_LIST_OF_VARIABLES = "mca_base_env_list"
"""Open MPI's parameter, whose value is `A=1;B=2`."""
_BEFORE_A_TEXT = re.compile(rf"{_LIST_OF_VARIABLES}|-\w*c")
"""What a list or the text of a shell stands behind, as in `sh -ec TEXT`."""
_AMID_A_WORD = re.compile(
    r"(?<![\w.-])(?P<name>[A-Za-z_]\w*)="
    r"(?=(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<bare>[^\s;]+)))"
)
"""The value is only looked at, since another may stand in it: `SetEnv=API_TOKEN=...`."""
_REFERENCE = re.compile(r"\$[({\w]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldValue:
    """The value of a variable inside a word: its characters from start up to end."""

    name: str
    start: int
    end: int


def held_values(words: tuple[str, ...]) -> tuple[tuple[HeldValue, ...], ...]:
    """Return for each word the values in it that may not be shown, in order."""
    return _held(words, {**_behind_env(words), **_behind_options(words)})


def secret_values(words: tuple[str, ...]) -> tuple[tuple[HeldValue, ...], ...]:
    """Return for each word the values in it whose names tell of secrets, in order."""
    by_place = {**_behind_env(words), **_behind_options(words)}
    return _held(words, {at: held for at, held in by_place.items() if is_secret(held.name)})


def _held(
    words: tuple[str, ...], by_place: Mapping[int, HeldValue]
) -> tuple[tuple[HeldValue, ...], ...]:
    befores = ("", *words)
    return tuple(
        (by_place[at],) if at in by_place else tuple(_secrets_in(word, befores[at]))
        for at, word in enumerate(words)
    )


def shown_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line with `...` in place of each value that may not be shown."""
    return tuple(_without(word, held) for word, held in zip(words, held_values(words), strict=True))


def _without(word: str, held: tuple[HeldValue, ...]) -> str:
    for value in reversed(held):
        word = word[: value.start] + HIDDEN + word[value.end :]
    return word


def _behind_options(words: tuple[str, ...]) -> Mapping[int, HeldValue]:
    """Return the values behind options that set a variable, by the index of their word."""
    found: dict[int, HeldValue] = {}
    for at, word in enumerate(words):
        option, equals, joined = word.partition("=")
        bare = option.lstrip("-")
        takes_pair = bare.lower() in _TAKES_A_PAIR
        if not option.startswith("-") or not (takes_pair or bare in _TAKES_ONE_WORD):
            continue
        first_at = at if equals else at + 1
        first = joined if equals else "".join(words[at + 1 : at + 2])
        name, has_value, _ = first.partition("=")
        if has_value:
            word = words[first_at]
            start = len(word) - len(first) + len(name) + 1
            found[first_at] = HeldValue(name=name, start=start, end=len(word))
        elif takes_pair and first_at + 1 < len(words):
            end = len(words[first_at + 1])
            found[first_at + 1] = HeldValue(name=name, start=0, end=end)
    return found


def _behind_env(words: tuple[str, ...]) -> Mapping[int, HeldValue]:
    """Return the values that the program `env` sets, by the index of their word."""
    found: dict[int, HeldValue] = {}
    for env_at, program in enumerate(words):
        if PurePath(program).name != "env":
            continue
        before = ""
        for at, word in enumerate(words[env_at + 1 :], start=env_at + 1):
            name, equals, _ = word.partition("=")
            if equals and is_variable_name(name):
                found[at] = HeldValue(name=name, start=len(name) + 1, end=len(word))
            elif not word.startswith("-") and before not in _OPTIONS_OF_ENV_WITH_A_VALUE:
                break
            before = word
    return found


def _secrets_in(word: str, before: str) -> Iterator[HeldValue]:
    """Yield what a secret-looking name stands in front of.

    A word that starts with the name is its value up to the end; amid a word the value ends where
    a shell's or a list's would. What only refers to another variable is no value.
    """
    name, equals, _ = word.partition("=")
    is_text = _BEFORE_A_TEXT.fullmatch(before) is not None
    if equals and is_variable_name(name) and is_secret(name) and not is_text:
        yield HeldValue(name=name, start=len(name) + 1, end=len(word))
        return
    end = 0
    for match in _AMID_A_WORD.finditer(word):
        group = next(g for g in ("single", "double", "bare") if match[g] is not None)
        refers = group != "single" and _REFERENCE.match(match[group])
        if is_secret(match["name"]) and not refers and match.start() >= end:
            end = match.end(group)
            yield HeldValue(name=match["name"], start=match.start(group), end=end)
