"""What goes wrong with a transfer: with which peer, in which phase, and why."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["OutOfPages", "OutOfStaging", "Phase", "TransferError"]

Phase: TypeAlias = Literal["handshake", "reserving", "waiting", "moving"]
"""Peers agree; pages, or staging memory, are reserved; the other side is waited for; bytes are on
their way."""


class TransferError(RuntimeError):
    """A transfer that will not be: no page of it is seen, and all are free once none is written."""

    def __init__(self, reason: str, *, peer: str, phase: Phase, key: str = "") -> None:
        what = f"transfer {key} with {peer}" if key else f"session with {peer}"
        super().__init__(f"{what}, {phase}: {reason}")
        self.reason, self.peer, self.phase, self.key = reason, peer, phase, key


class OutOfPages(RuntimeError):
    """Too few pages are free: how many of which are needed, and how many there are."""


class OutOfStaging(RuntimeError):
    """A transfer that needs more staging memory than the receiver has in all: no wait helps."""
