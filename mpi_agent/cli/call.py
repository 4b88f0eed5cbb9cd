"""One call of a command: what was given to it, and who listens to what happens.

What listens is loaded once something is told: `ready` is called every few seconds and is silent.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mpi_agent.errors import MpiAgentError, SettingsError
from mpi_agent.given import Given
from mpi_agent.setting_words import Form

if TYPE_CHECKING:
    from mpi_agent.job.events import EventSink
    from mpi_agent.observe.log import EventLog

__all__ = ["Call", "report_error"]

_READER_GONE = 141


class Call:
    """What a command's function gets."""

    def __init__(self, given: Given) -> None:
        self.given = given

    @functools.cached_property
    def log(self) -> EventLog:
        """The log on stderr, in the form that was asked for.

        Raises:
            SettingsError: nobody knows that form.
        """
        knows = self.given.knows("log-format")
        return _open_log(self.given.choice("log-format", Form) if knows else Form.TEXT)

    def note(self, text: str) -> None:
        """Write a note to the log."""
        from mpi_agent.job.events import Noted

        self.log(Noted(text=text))

    def say(self, text: str) -> None:
        """Print what the command answers, on stdout."""
        from mpi_agent.observe.bar import LiveLog

        if isinstance(self.log, LiveLog):
            self.log.erase()
        try:
            click.echo(text, nl=False)
        except OSError as error:  # a full disk; a reader that is gone has its own code
            raise BrokenPipeError(error.errno, error.strerror) from error

    def fail(self, error: Exception) -> int:
        """Tell why the command cannot do its part; return the exit code."""
        try:
            log = self.log
        except SettingsError:
            log = _open_log(Form.TEXT)
        return report_error(error, log)

    @contextlib.contextmanager
    def listening(self, http_port: int | None) -> Iterator[EventSink]:
        """Provide who listens: the log, and on a port, where one is given, whoever asks over HTTP.

        A port that cannot be had is told, and the job goes on without it.
        """
        if http_port is None:
            yield self.log
            return
        from mpi_agent.observe.fan_out import FanOut
        from mpi_agent.observe.http import HttpServer
        from mpi_agent.observe.metrics import Metrics
        from mpi_agent.observe.pages import launcher_pages
        from mpi_agent.observe.status import Status

        status, metrics = Status(now_s=time.monotonic), Metrics(now_s=time.monotonic)
        with contextlib.ExitStack() as stack:
            pages = launcher_pages(status, metrics)
            server = HttpServer(address=None, port=http_port, pages=pages)
            try:
                stack.enter_context(server)
            except OSError as error:
                self.note(f"cannot serve HTTP on port {http_port}: {error.strerror}; left out")
            yield FanOut(self.log, status, metrics)


def report_error(error: Exception, log: EventLog) -> int:
    """Tell an error in at most a few lines; return the exit code."""
    if isinstance(error, BrokenPipeError):
        # whoever read our output is gone; nothing may be flushed to it at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    if not isinstance(error, MpiAgentError):
        if os.environ.get("MPI_AGENT_TRACEBACK"):
            raise error
        error = _internal_error(error)
    log.error(error.summary, hint=error.hint, evidence=error.evidence, exit_code=error.exit_code)
    return error.exit_code


def _internal_error(error: Exception) -> MpiAgentError:
    return MpiAgentError(
        f"internal error: {type(error).__name__}: {error}",
        hint="this is a bug of mpi-agent; MPI_AGENT_TRACEBACK=1 shows where",
    )


def _open_log(form: Form) -> EventLog:
    """Return a log on stderr; on a terminal its text shows how the wait goes."""
    from mpi_agent.observe.bar import Bar, LiveLog, terminal_width
    from mpi_agent.observe.log import make_log

    # None: the descriptor was closed; what is opened then takes its number, for children too
    stream = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    log = make_log(form, stream)
    if form is Form.JSON or not terminal_width(stream):
        return log
    bar = Bar(stream, now_s=time.monotonic, width=lambda: terminal_width(stream))
    return LiveLog(log, bar)
