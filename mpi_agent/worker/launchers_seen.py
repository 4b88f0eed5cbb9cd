"""Which launcher containers began a run on this worker, in a file that a login reads by itself.

A launcher that a Job's controller starts anew learns from it how many of its job came before. The
worker may outlive many jobs, so each launcher stands there with its job.
"""

from __future__ import annotations

from mpi_agent.errors import StateDirectoryError
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_protocol import LAUNCHERS_NAME
from mpi_agent.ssh.worker_words import LauncherId
from mpi_agent.state import StateDirectory

__all__ = ["LaunchersSeen"]

_MOST = 1000
"""of which the latest are kept; no job has so many launchers"""


class LaunchersSeen:
    """The launchers of this worker's life."""

    def __init__(self, state: StateDirectory, emit: EventSink) -> None:
        self._state = state
        self._emit = emit
        self._launchers: dict[str, None] = {}

    def add(self, run_id: str, launcher: LauncherId) -> None:
        """Note that a run began; where the file cannot be written, that is said."""
        own = RunId.parse(run_id) or RunId.of_launcher(
            name=launcher.name, container=launcher.container, launch=""
        )
        if own.launcher in self._launchers:
            return
        self._launchers[own.launcher] = None
        if len(self._launchers) > _MOST:
            del self._launchers[next(iter(self._launchers))]
        try:
            self._state.write(LAUNCHERS_NAME, "".join(f"{one}\n" for one in self._launchers))
        except StateDirectoryError as error:
            self._emit(Noted(text=f"{error.summary}; the next launcher cannot count its attempt"))
