"""The fields of a manifest, each of which must be taken or be passed over by name."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self

__all__ = ["Fields"]

_REQUIRED: Final = object()


class Fields:
    """A mapping of the manifest; leaving its context refuses fields that nobody asked for.

    Attributes:
        where: its place in the manifest, for messages.
    """

    def __init__(self, where: str, content: Any) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"cannot lay out {where}: it is not a mapping")
        self.where = where
        self._left: dict[str, Any] = dict(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and self._left:
            raise self.refuse(f"nobody knows {', '.join(self._left)}")

    def take(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return the value of a field.

        Raises:
            ValueError: it is missing, and has no default.
        """
        value = self._left.pop(name, default)
        if value is _REQUIRED:
            others = f", but {', '.join(self._left)}" if self._left else ""
            raise self.refuse(f"it has no {name}{others}")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """Return the strings of a list; none if it is missing.

        Raises:
            ValueError: it is no list of strings, which the API server refuses as well.
        """
        found = self.take(name, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.refuse(f"{name} is not a list of strings")
        return tuple(found)

    def part(self, name: str) -> Fields:
        """Return the mapping that a field holds; an empty one if it is missing."""
        return Fields(f"{self.where}.{name}", self.take(name, {}))

    def parts(self, name: str) -> Iterator[Fields]:
        """Go through the mappings of a list, each within its context."""
        for number, one in enumerate(self.take(name, [])):
            with Fields(f"{self.where}.{name}[{number}]", one) as fields:
                yield fields

    def pass_over(self, *names: str) -> None:
        """Say that these fields mean nothing here."""
        for name in names:
            self._left.pop(name, None)

    def refuse(self, why: str) -> ValueError:
        """Return the error that says why this part cannot be laid out."""
        return ValueError(f"cannot lay out {self.where}: {why}")
