"""What a pool costs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["SizeReporting"]


@runtime_checkable
class SizeReporting(Capability, Protocol):
    """Can the pool say how much memory it takes?"""

    @property
    def mem_usage(self) -> float:
        """GiB (2**30 bytes) of `get_kv_size_bytes`; 0 for a view into memory reported elsewhere."""
        ...

    def get_kv_size_bytes(self) -> tuple[int, int] | int:
        """Bytes of the key side and of the value side, scales and index rows included.

        One number where a token is one row for both. 0 for views, like `mem_usage`. Of a composite
        the sum over its leaves, in which a row for both beside a pair counts as a key.
        """
        ...
