"""What workers told the launcher while the program ran, as far as it explains an ending."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WorkerNews"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNews:
    """What one worker told, beside that it lives.

    Attributes:
        is_evicted: it was told to end.
        is_gone: it could not be spoken with any more after that.
        kills: processes that were killed there because they took too much memory.
        used_bytes: the most that was in use when that happened; None where nothing tells it.
        limit_bytes: of its container; None where nothing tells it.
    """

    host: str
    is_evicted: bool = False
    is_gone: bool = False
    kills: int = 0
    used_bytes: int | None = None
    limit_bytes: int | None = None
