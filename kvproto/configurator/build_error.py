"""What building says when it cannot go on."""

from __future__ import annotations

__all__ = ["BuildError"]


class BuildError(RuntimeError):
    """A platform did not build what a plan needs: which platform, which part, and why."""
