"""JSON that every reader takes: plain ASCII, no lone surrogates, no NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["JsonObject", "JsonValue", "render_json"]

JsonValue: TypeAlias = "str | int | float | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = "Mapping[str, JsonValue]"


def render_json(value: JsonValue, *, indent: int | None = None) -> str:
    """Return one JSON text, in one line unless `indent` is given.

    A byte that is no UTF-8 reaches us as a lone surrogate; it is written as a backslash escape
    inside the string, because parsers differ on lone surrogates. Numbers that JSON does not have
    become null.

    Source: RFC 8259, sections 6 and 8.2.
    """
    return json.dumps(_clean(value), indent=indent, allow_nan=False)


def _clean(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        case float():
            return round(value, 3) if math.isfinite(value) else None
        case int() | None:
            return value
        case Mapping():
            return {name: _clean(item) for name, item in value.items()}
        case _:
            return [_clean(item) for item in value]
