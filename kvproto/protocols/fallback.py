"""Who builds what a platform declines."""

from __future__ import annotations

from typing import Literal

__all__ = ["Fallback"]

Fallback = Literal["core", "none"]
"""Where a platform declines a request: `core` has the core build it, in plain torch, and whoever
asked is told; `none` has the decline stand. Accounts of slots, and leaves without a row, are as
good from the core; rows are not: the platform's kernels may read them in another layout."""
