"""Whether a law was judged by what the pool itself shows, for want of anything better."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fallback"]


@dataclass(slots=True)
class Fallback:
    """One record per bench: whoever reads behind a pool's own door on its behalf says so here."""

    used: bool = False

    def note(self) -> None:
        """Something was read behind a door of the pool."""
        self.used = True
