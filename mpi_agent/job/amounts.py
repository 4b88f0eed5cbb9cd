"""Amounts of memory in words for people, the same ones wherever they are told."""

from __future__ import annotations

__all__ = ["render_memory", "render_size"]

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def render_size(size_bytes: int) -> str:
    """Return a size as `31.9 GiB`, `512 MiB` or `64 KiB`: one decimal, if it has any."""
    unit_bytes, unit = _unit_of(size_bytes)
    return f"{_number(size_bytes, unit_bytes)} {unit}"


def render_memory(used_bytes: int | None, limit_bytes: int | None) -> str:
    """Return how much is used of a limit, `31.9 of 32 GiB`; empty where neither is known.

    Both are in the unit that suits the limit, so that they can be compared at a glance.
    """
    if limit_bytes is None:
        return "" if used_bytes is None else f"{render_size(used_bytes)} in use"
    if used_bytes is None:
        return f"limit {render_size(limit_bytes)}"
    used = _number(used_bytes, _unit_of(limit_bytes)[0])
    return f"{used} of {render_size(limit_bytes)}"


def _unit_of(size_bytes: int) -> tuple[int, str]:
    return next((unit for unit in _UNITS if size_bytes >= unit[0]), _UNITS[-1])


def _number(size_bytes: int, unit_bytes: int) -> str:
    return f"{size_bytes / unit_bytes:.1f}".removesuffix(".0")
