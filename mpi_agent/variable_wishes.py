"""What the user asks to travel by its name: read from --env and env files, and checked.

An error names a variable, its place and its size, and never its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mpi_agent.env_file import FileVariable
from mpi_agent.variable_names import is_variable_name, matches_any, reason_to_refuse

__all__ = ["LONGEST_STRING_BYTES", "VariableError", "Wish", "refuse_too_much", "wishes_of"]

LONGEST_STRING_BYTES = 131_071
"""Of one argument or one NAME=VALUE, without the NUL behind it.

Source: MAX_ARG_STRLEN in Linux' binfmts.h, 32 pages; execve on Linux 6.18 took 131,071 bytes and
answered E2BIG to 131,072 (measured 2026-11).
"""
_POINTER_BYTES = 8
_ROOM_FOR_ARGV_BYTES = 4096


class VariableError(ValueError):
    """A variable that was asked for cannot travel; names it, and never its value.

    Attributes:
        hint: one action that is likely to help.
    """

    def __init__(self, summary: str, *, hint: str) -> None:
        super().__init__(summary)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A variable that the user asked for by its name.

    Attributes:
        value: None where the launcher's own counts.
        place: file and line, None for --env.
    """

    name: str
    value: str | None
    place: str | None = None

    @property
    def reason(self) -> str:
        """Why it travels."""
        return "asked for with --env" if self.place is None else f"asked for in {self.place}"


def wishes_of(
    environ: Mapping[str, str],
    *,
    wanted: tuple[str, ...],
    from_files: tuple[FileVariable, ...],
    unwanted: tuple[str, ...],
) -> dict[str, Wish]:
    """Return the last wish for each name; --env comes behind every file.

    A name without a value takes the environment's, else the one that a file gave. What a file
    names and --no-env keeps back is no wish.

    Raises:
        VariableError: one cannot travel.
    """
    in_files = (Wish(name=v.name, value=v.value, place=v.place) for v in from_files)
    wishes: dict[str, Wish] = {}
    for wish in (
        *(w for w in in_files if not matches_any(w.name, unwanted)),
        *(_wish(item) for item in wanted),
    ):
        _refuse_impossible(wish)
        if wish.value is None and wish.name not in environ:
            if wish.name not in wishes:
                raise _cannot(wish, "is not set here", "set it, or give NAME=VALUE")
            wish = replace(wish, value=wishes[wish.name].value)
        wishes[wish.name] = wish
    return wishes


def _wish(item: str) -> Wish:
    name, equals, value = item.partition("=")
    return Wish(name=name, value=value if equals else None)


def _refuse_impossible(wish: Wish) -> None:
    name, value = wish.name, wish.value
    if not is_variable_name(name):
        raise VariableError(
            f'"{name}" is no name of a variable',
            hint="write --env NAME or --env NAME=VALUE; --env-prefix takes the start of names",
        )
    refusal = reason_to_refuse(name)
    if refusal is not None:
        raise _cannot(wish, f"is {refusal}", "leave it out of what the ranks are to have")
    if value is None:
        return
    if "\0" in value:
        raise _cannot(wish, "has a NUL byte, which no variable can hold", "encode its value")
    size = _size(name, value)
    if size > LONGEST_STRING_BYTES:
        why = f"has {size} bytes with its name, and Linux takes {LONGEST_STRING_BYTES}"
        raise _cannot(wish, why, "put its value into a file that every host can read")


def _cannot(wish: Wish, why: str, hint: str) -> VariableError:
    where = "" if wish.place is None else f" ({wish.place})"
    return VariableError(f"variable {wish.name}{where} {why}", hint=hint)


def refuse_too_much(environ: Mapping[str, str], names: tuple[str, ...], limit_bytes: int) -> None:
    """Refuse an environment with which no launcher could be started.

    Args:
        environ: the launcher's whole environment.
        names: what its argv names.
        limit_bytes: what the kernel takes for arguments and environment.

    Raises:
        VariableError: it is too large; names the largest variable.
    Source: execve on Linux 6.18, 2026-11: all strings with their NULs and a pointer each must fit
    a quarter of the stack's limit.
    """
    sizes = {n: _size(n, value) + 1 + _POINTER_BYTES for n, value in environ.items()}
    words = sum(len("-x") + len(name) + 2 * (1 + _POINTER_BYTES) for name in names)
    total = sum(sizes.values()) + words + _ROOM_FOR_ARGV_BYTES
    if total <= limit_bytes:
        return
    largest = max(sizes, key=lambda name: sizes[name], default="")
    raise VariableError(
        f"all variables together have {total} bytes, and the kernel takes {limit_bytes}; the"
        f" largest is {largest} with {sizes.get(largest, 0)} bytes",
        hint="put large values into files that every host can read, or raise `ulimit -s`",
    )


def _size(name: str, value: str) -> int:
    """Return the bytes of NAME=VALUE; a byte that is no UTF-8 reaches us as a lone surrogate."""
    return len(f"{name}={value}".encode("utf-8", "surrogateescape"))
