"""Readiness of a worker: the file that says it, and the probe that does not only believe the file.

A worker is ready when a banner with its own name came back from its own port.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.ssh.banner import NotSshError, read_banner

__all__ = ["ReadyFile", "probe_readiness"]

_PROBE_LIMIT_S = 2.0
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyFile:
    """What stands in the file: who is ready, where to ask, and what must be answered.

    Attributes:
        announcement: end of the banner by which the worker's own server is known.
    """

    pid: int
    address: str
    port: int
    announcement: str

    def render(self) -> str:
        """Return the file's text."""
        return f"{_FORMAT} {self.pid} {self.address} {self.port} {self.announcement}\n"

    @classmethod
    def parse(cls, text: str) -> ReadyFile:
        """Return what a file says.

        Raises:
            ValueError: it is not a file of ours.
        """
        version, pid, address, port, announcement = text.strip().split(" ", 4)
        if int(version) != _FORMAT:
            raise ValueError(f"format {version} is not known")
        return cls(pid=int(pid), address=address, port=int(port), announcement=announcement)


def probe_readiness(path: Path) -> str | None:
    """Return why the worker is not ready, None when it is; takes at most a few seconds."""
    try:
        told = ReadyFile.parse(path.read_text())
    except OSError as error:
        return f'no ready file "{path}": {error.strerror}'
    except ValueError as error:
        return f'"{path}" is not a ready file of a worker: {error}'
    with contextlib.suppress(PermissionError):
        try:
            os.kill(told.pid, 0)
        except ProcessLookupError:
            return f"the worker, pid {told.pid}, is gone"
    try:
        banner = read_banner(told.address, told.port, timeout_s=_PROBE_LIMIT_S)
    except (OSError, NotSshError) as error:
        return f"no ssh banner on {told.address} port {told.port}: {error}"
    if not banner.endswith(told.announcement):
        return f"another ssh server answers on {told.address} port {told.port}: {banner}"
    return None
