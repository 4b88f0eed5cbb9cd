"""What workers told the launcher while the program ran, as far as it explains an ending."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WorkerNews"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNews:
    """What one worker told, beside that it lives.

    Only what it said counts. That its channel is open or broken says nothing: a network may break,
    and the launcher cuts what is left of the channels itself.

    Attributes:
        is_evicted: it was told to end.
        ranks: processes of programs there that were told so by it; 0 where none ran by then.
        is_lost: it ended what was left there of the program, ranks or their daemon, so that
            nothing the launcher heard of the program afterwards is to be believed.
        kills: processes that were killed there because they took too much memory.
        used_bytes: the most that was in use when that happened; None where nothing tells it.
        limit_bytes: of its container; None where nothing tells it.
    """

    host: str
    is_evicted: bool = False
    ranks: int = 0
    is_lost: bool = False
    kills: int = 0
    used_bytes: int | None = None
    limit_bytes: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether it told anything that explains an ending."""
        return self.is_evicted or self.is_lost or self.kills > 0
