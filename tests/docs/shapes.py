"""Shapes of YAML values: what a table of fields is made of, and what of a document it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["ListOf", "MapOf", "Record", "Scalar", "Shape", "problems"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value.

    Attributes:
        kinds: what YAML may make of it; a bool is no number here.
        words: the only ones that are allowed; empty for any.
    """

    kinds: tuple[type, ...]
    words: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list of values of one shape."""

    item: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping from any name to values of one shape."""

    value: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A mapping with these names and no others.

    Attributes:
        required: names that must be there.
    """

    of: Mapping[str, Shape]
    required: frozenset[str] = frozenset()


Shape: TypeAlias = Scalar | ListOf | MapOf | Record


def problems(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield one sentence for each place where a value has another shape; the place is named."""
    match shape:
        case Scalar():
            yield from _problems_of_scalar(value, shape, path)
        case ListOf():
            if not isinstance(value, list):
                yield f"{path} is no list"
                return
            for index, item in enumerate(value):
                yield from problems(item, shape.item, f"{path}[{index}]")
        case MapOf() | Record():
            if not isinstance(value, dict):
                yield f"{path} is no mapping"
                return
            yield from _problems_of_mapping(value, shape, path)


def _problems_of_scalar(value: Any, shape: Scalar, path: str) -> Iterator[str]:
    if type(value) not in shape.kinds:
        yield f"{path} is a {type(value).__name__}: {value!r}"
    elif shape.words and value not in shape.words:
        yield f"{path} is {value!r}, which is none of {sorted(shape.words)}"


def _problems_of_mapping(value: dict[str, Any], shape: MapOf | Record, path: str) -> Iterator[str]:
    if isinstance(shape, MapOf):
        for name, item in value.items():
            yield from problems(item, shape.value, f"{path}.{name}")
        return
    yield from (f"{path}.{name} is missing" for name in sorted(shape.required - value.keys()))
    for name, item in value.items():
        if name in shape.of:
            yield from problems(item, shape.of[name], f"{path}.{name}")
        else:
            yield f"{path}.{name} is no field"
