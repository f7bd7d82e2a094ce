"""Addresses first, memory after the graphs are captured."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["PostCaptureBacked"]


@runtime_checkable
class PostCaptureBacked(Capability, Protocol):
    """Can the pool reserve addresses for its largest size, and take memory once that is known?

    Whether this very pool was built so is a value: `post_capture_active`.
    """

    @property
    def post_capture_active(self) -> bool:
        """Whether the buffers are reserved addresses, so that `finalize_backing` is still due."""
        ...

    @property
    def post_capture_backed_bytes(self) -> int:
        """Bytes that have memory behind them; 0 where `post_capture_active` is False."""
        ...

    def finalize_backing(self, config: Any, /) -> None:
        """Back the final span and set `size`; addresses and the reserved page stay as they are.

        `config` carries the final sizes: a pool reads `max_total_num_tokens`, a window pair
        `full_max_total_num_tokens` and `swa_max_total_num_tokens`. Called once.
        """
        ...
