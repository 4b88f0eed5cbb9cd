"""Options of every command, made from the table of settings, and the one broad `except`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from mpi_agent.cli.call import Call
from mpi_agent.given import Given
from mpi_agent.settings import Kind, Setting, settings_of, unknown_variables, variable_of

__all__ = ["settings_options"]

_Command = Callable[..., None]


def settings_options(command: str) -> Callable[[_Command], _Command]:
    """Return a decorator that gives a click command its options and one argument, `call`.

    What the command raises is told in one sentence with a hint, and becomes the exit code.
    """
    rows = settings_of(command)

    def decorate(function: _Command) -> _Command:
        @functools.wraps(function)
        def run(**values: Any) -> None:
            flags = {row.name: _flag_text(values.pop(_parameter(row))) for row in rows}
            call = Call(Given(command, flags, os.environ))
            try:
                for sentence in unknown_variables(os.environ):
                    call.note(sentence)
                function(call=call, **values)
            except Exception as error:
                sys.exit(call.fail(error))

        decorated: _Command = run
        for row in reversed(rows):
            decorated = _option(row)(decorated)
        return decorated

    return decorate


def _parameter(row: Setting) -> str:
    return f"setting_{row.name.replace('-', '_')}"


def _option(row: Setting) -> Callable[[_Command], _Command]:
    default = f" [default: {row.default}]" if row.default else ""
    text = f"{row.help}{default} [{variable_of(row.name)}]"
    if row.kind is Kind.SWITCH:
        return click.option(row.flag, _parameter(row), is_flag=True, default=None, help=text)
    return click.option(
        row.flag,
        _parameter(row),
        metavar=row.placeholder,
        multiple=row.kind is Kind.LIST,
        default=None,
        help=text,
    )


def _flag_text(value: Any) -> str | None:
    """Return click's value as text; items of a repeated flag are joined by NUL."""
    if value is None or value == ():
        return None
    if value is True:
        return "true"
    return "\0".join(value) if isinstance(value, tuple) else str(value)
