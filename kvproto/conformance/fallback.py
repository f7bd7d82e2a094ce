"""Whether a law was judged by less than there could be: by doors, or on twins of kernels."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from kvproto.kernels import twin_fallbacks

__all__ = ["TWINS", "Fallback"]

TWINS = "torch operations did what Triton kernels are for: no Triton, or too old"
"""The note of a law that was kept that way."""


@dataclass(slots=True)
class Fallback:
    """One record per bench: whoever reads behind a pool's own door on its behalf says so here."""

    used: bool = False
    twins: bool = False

    def note(self) -> None:
        """Something was read behind a door of the pool."""
        self.used = True

    @contextmanager
    def noting_twins(self) -> Generator[None]:
        """Notes whether operations in this block wanted a kernel and did without."""
        before = twin_fallbacks()
        yield
        self.twins |= twin_fallbacks() > before
