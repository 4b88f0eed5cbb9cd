"""What the user gave to one command, read as the kind that each setting has.

Flags first, then variables, then the table's default; a bad value names which of them it came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from mpi_agent.errors import SettingsError
from mpi_agent.settings import settings_of, variable_of

__all__ = ["Given", "parse_duration_s", "parse_size_bytes"]

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LAST_PORT = 65535
_SIZE_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_Choice = TypeVar("_Choice", bound=Enum)
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


def parse_duration_s(text: str) -> float:
    """Return seconds for `90s`, `10m`, `1h30m`, `250ms`, or a bare number of seconds.

    Raises:
        ValueError: the text is none of these.
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        raise ValueError("not a duration such as 90s or 10m")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(text))


def parse_size_bytes(text: str) -> int:
    """Return the bytes that `4096`, `64K`, `64M` or `2G` are; K is 1,024.

    Raises:
        ValueError: it is none of these.
    """
    match = re.fullmatch(r"(\d{1,12})\s*([KMG]?)(?:iB|i|B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("not a size such as 4096, 64K or 64M")
    return int(match[1]) << _SIZE_SHIFTS[match[2].upper()]


class Given:
    """What the user gave to one command: flags first, then variables, then the table's default."""

    def __init__(
        self, command: str, flags: Mapping[str, str | None], environ: Mapping[str, str]
    ) -> None:
        self._rows = {row.name: row for row in settings_of(command)}
        self._flags = flags
        self._environ = environ

    def knows(self, name: str) -> bool:
        """Return whether the command has this setting at all."""
        return name in self._rows

    def text(self, name: str) -> str | None:
        """Return the value as written, None when nobody gave one and there is no default."""
        return self._value(name)[0]

    def count(self, name: str) -> int | None:
        """Return a whole number of at least 1."""
        value, origin = self._value(name)
        if value is None:
            return None
        if not _is_count(value):
            raise _bad_value(value, origin, "not a whole number of at least 1")
        return int(value)

    def count_from_0(self, name: str) -> int:
        """Return a whole number of at least 0; settings of this kind always have a default."""
        value, origin = self._value(name)
        text = (value or "").strip()
        if re.fullmatch(r"\d{1,9}", text) is None:
            raise _bad_value(text, origin, "not a whole number of at least 0")
        return int(text)

    def size_bytes(self, name: str) -> int:
        """Return bytes; settings of this kind always have a default."""
        value, origin = self._value(name)
        try:
            return parse_size_bytes(value or "0")
        except ValueError as error:
            raise _bad_value(value or "", origin, str(error)) from error

    def optional_duration_s(self, name: str) -> float | None:
        """Return seconds, None when nobody gave any."""
        return None if self._value(name)[0] is None else self.duration_s(name)

    def count_or(self, name: str, words: type[_Choice]) -> int | _Choice | None:
        """Return a whole number of at least 1, or one of a few words instead."""
        value, origin = self._value(name)
        word = (value or "").strip().lower()
        for choice in words:
            if choice.value == word:
                return choice
        if value is not None and not _is_count(value):
            others = " nor ".join(str(choice.value) for choice in words)
            raise _bad_value(value, origin, f"neither a whole number of at least 1 nor {others}")
        return self.count(name)

    def port(self, name: str) -> int | None:
        """Return a TCP port."""
        number = self.count(name)
        if number is not None and number > _LAST_PORT:
            raise _bad_value(str(number), self._value(name)[1], f"ports end at {_LAST_PORT}")
        return number

    def port_range(self, name: str) -> tuple[int, int] | None:
        """Return the first and the last of a range of TCP ports."""
        value, origin = self._value(name)
        if value is None:
            return None
        match = re.fullmatch(r"(\d{1,5})\s*[-:]\s*(\d{1,5})", value.strip())
        first, last = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1024 <= first < last <= _LAST_PORT:
            raise _bad_value(value, origin, "not a range of ports from 1024 on, as 40000-40999")
        return first, last

    def duration_s(self, name: str) -> float:
        """Return seconds; settings of this kind always have a default."""
        value, origin = self._value(name)
        try:
            return parse_duration_s("0" if value is None else value)
        except ValueError as error:
            raise _bad_value(value or "", origin, str(error)) from error

    def switch(self, name: str) -> bool:
        """Return whether a switch is on."""
        value, origin = self._value(name)
        word = (value or "").strip().lower()
        if word not in _TRUE | _FALSE:
            raise _bad_value(word, origin, "neither true nor false")
        return word in _TRUE

    def choice(self, name: str, words: type[_Choice]) -> _Choice:
        """Return the word chosen; settings of this kind always have a default."""
        value, origin = self._value(name)
        wanted = (value or "").strip().lower()
        chosen = next((word for word in words if str(word.value).lower() == wanted), None)
        if chosen is None:
            allowed = ", ".join(self._rows[name].choices)
            raise _bad_value(value or "", origin, f"none of {allowed}")
        return chosen

    def names(self, name: str) -> tuple[str, ...]:
        """Return the items of a repeated flag, or of a variable that separates them by commas."""
        value, _ = self._value(name)
        separator = "\0" if self._flags.get(name) is not None else ","
        items = (value or "").split(separator)
        return tuple(item.strip() if separator == "," else item for item in items if item.strip())

    def _value(self, name: str) -> tuple[str | None, str]:
        row = self._rows[name]
        flag = self._flags.get(name)
        if flag is not None:
            return flag, row.flag
        variable = variable_of(name)
        if self._environ.get(variable):
            return self._environ[variable], f"variable {variable}"
        return row.default, "default"


def _is_count(text: str) -> bool:
    return re.fullmatch(r"\d+", text.strip()) is not None and int(text) >= 1


def _bad_value(value: str, origin: str, reason: str) -> SettingsError:
    return SettingsError(
        f'cannot use "{value}" for {origin}: {reason}', hint=f"correct {origin} or leave it out"
    )
