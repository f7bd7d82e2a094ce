"""Keys that one side does not want to move, until the other side hears of it."""

from __future__ import annotations

__all__ = ["Declines"]


class Declines:
    """Why each key was declined, the newest `most` of them: of one that is forgotten the other
    side is told nothing, and its transfer ends in time."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def note(self, key: str, reason: str) -> None:
        """Keep it, instead of an earlier reason."""
        self._reasons.pop(key, None)
        self._reasons[key] = reason
        if len(self._reasons) > self._most:
            del self._reasons[next(iter(self._reasons))]

    def take(self, key: str) -> str | None:
        """The reason, which is forgotten."""
        return self._reasons.pop(key, None)
