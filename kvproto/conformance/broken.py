"""How a law says that a pool broke it."""

from __future__ import annotations

__all__ = ["LawBroken"]


class LawBroken(Exception):
    """The pool did something else than the law says: the call, what was expected, what came."""

    def __init__(self, call: str, *, expected: str, got: str) -> None:
        super().__init__(f"{call}: expected {expected}, got {got}")
        self.call = call
        self.expected = expected
        self.got = got
