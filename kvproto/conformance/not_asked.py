"""What a law raises where it cannot put its question to a pool."""

from __future__ import annotations

__all__ = ["NotAsked"]


class NotAsked(Exception):
    """The pool, or its factory, leaves nothing to ask; `reason` says why.

    Neither kept nor broken. What is known of a request beforehand is the law's `applies`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
