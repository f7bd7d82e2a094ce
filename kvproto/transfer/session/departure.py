"""How far a peer is gone: its words first, and its writes only once that is known."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .link import Link
from .processes import has_ended

__all__ = ["Departure", "Presence"]

Presence: TypeAlias = Literal["here", "lost", "over"]
"""Heard; not heard any more, while its writes may go on; known to write nothing more."""


class Departure:
    """Of the peer of one link. What it had sent may come for `linger` seconds after each step.

    A connection that ends says nothing of writes: the peer's process may be there still. They are
    over once it has said so, its process has ended, or the caller knows.
    """

    def __init__(self, link: Link, linger: float) -> None:
        self._link, self._linger = link, linger
        self._lost: float | None = None
        self._quiet: float | None = None
        self._is_over = False

    def finished(self, now: float) -> None:
        """The peer has said that it writes nothing more."""
        self._quiet = now if self._quiet is None else self._quiet

    def reclaim(self) -> None:
        """The caller knows."""
        self._is_over = True

    def presence(self, now: float) -> Presence:
        """Where the peer is at this time."""
        if self._is_over:
            return "over"
        if self._link.exchange.ended is None and self._quiet is None:
            return "here"
        if self._lost is None:
            self._lost = now
        if self._quiet is None and has_ended(self._link.process):
            self._quiet = now
        if self._quiet is not None and now >= max(self._lost, self._quiet) + self._linger:
            self._is_over = True
            return "over"
        return "lost" if now >= self._lost + self._linger else "here"
