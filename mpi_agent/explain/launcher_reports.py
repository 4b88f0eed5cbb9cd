"""What launchers say of ranks and daemons, as values; `explain.launcher_forms` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["DaemonFate", "DaemonWord", "LauncherWords", "RankFailure", "Unstarted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """A rank that ended badly.

    Attributes:
        rank: None where nothing tells it.
        host: as it was told, maybe short; empty where nothing tells it.
        is_first: who tells it knows that it failed before all others; a rank that was killed
            because another one had failed may be listed as well.
    """

    rank: int | None = None
    host: str = ""
    code: int | None = None
    signal: int | None = None
    called_abort: bool = False
    is_first: bool = False

    @property
    def shell_code(self) -> int | None:
        """The code, or 128 + the signal; None where neither is told."""
        return self.code if self.signal is None else 128 + self.signal


class DaemonFate(Enum):
    """What became of one of mpirun's daemons, or of its connection."""

    LOST = "lost"
    """it was there, and is not any more"""
    CLOSED = "closed"
    """the ssh connection that started it was closed from the other side, or went silent"""
    GONE = "gone"
    """the same is said of one that never came and of one that went away later"""
    UNSTARTED = "unstarted"
    """it never came"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonWord:
    """What was said of a daemon.

    Attributes:
        denies_success: it was seen beside an mpirun that ended with 0.
    """

    fate: DaemonFate
    host: str = ""
    denies_success: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unstarted:
    """A program that could not be executed on a host; `why` is empty where nothing tells it."""

    program: str
    host: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherWords:
    """All that was said, in its order."""

    failures: tuple[RankFailure, ...] = ()
    daemons: tuple[DaemonWord, ...] = ()
    unstarted: tuple[Unstarted, ...] = ()
