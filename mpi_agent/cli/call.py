"""One call of a command: what was given to it, and who listens to what happens.

What listens is loaded once something is told: `ready` is called every few seconds and is silent.
Nobody waits for whoever reads stderr: a reader who stops must not keep signals from the program, or
workers from hearing that their launcher lives.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mpi_agent.errors import MpiAgentError, SettingsError
from mpi_agent.given import Given
from mpi_agent.setting_words import Form

if TYPE_CHECKING:
    from mpi_agent.job.events import EventSink
    from mpi_agent.observe.log import EventLog

__all__ = ["Call", "ignore_late_signals", "report_error"]

_READER_GONE = 141
_ERROR_LIMIT_S = 2.0
"""for writing why a command failed, where nobody may read it"""


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

        A port that cannot be had is told, and the job goes on without it. What was told is in the
        log when this is left, unless nobody reads it.
        """
        from mpi_agent.observe.patient_log import PatientLog

        with PatientLog(self.log) as log:
            if http_port is None:
                yield log
                return
            with self._serving(http_port, log) as sink:
                yield sink

    @contextlib.contextmanager
    def _serving(self, http_port: int, log: EventSink) -> Iterator[EventSink]:
        from mpi_agent.job.events import Noted
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
                text = f"cannot serve HTTP on port {http_port}: {error.strerror}; left out"
                log(Noted(text=text))
            yield FanOut(log, status, metrics)


def ignore_late_signals() -> None:
    """Let no signal take the place of the exit code that is known by now."""
    for late in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(late, signal.SIG_IGN)


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
    _write_soon(error, log)
    return error.exit_code


def _write_soon(error: MpiAgentError, log: EventLog) -> None:
    """Write an error to the log; return soon all the same where nobody takes it."""
    values = {"hint": error.hint, "evidence": error.evidence, "exit_code": error.exit_code}
    writer = threading.Thread(target=log.error, args=(error.summary,), kwargs=values, daemon=True)
    writer.start()
    writer.join(_ERROR_LIMIT_S)


def _internal_error(error: Exception) -> MpiAgentError:
    return MpiAgentError(
        f"internal error: {type(error).__name__}: {error}",
        hint="this is a bug of mpi-agent; MPI_AGENT_TRACEBACK=1 shows where",
    )


def _open_log(form: Form) -> EventLog:
    """Return a log on stderr; on a terminal its text shows how the wait goes."""
    from mpi_agent.observe.bar import Bar, LiveLog, terminal_width
    from mpi_agent.observe.error_stream import error_stream
    from mpi_agent.observe.log import make_log

    stream = error_stream()
    log = make_log(form, stream)
    if form is Form.JSON or not terminal_width(stream):
        return log
    bar = Bar(stream, now_s=time.monotonic, width=lambda: terminal_width(stream))
    return LiveLog(log, bar)
