"""Quantized rows with a scale per block of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BlockScaled"]


@runtime_checkable
class BlockScaled(Capability, Protocol):
    """Does the pool own a scale for every block of elements it stores?

    Rows mean nothing without their scales: copies, moves and transfers carry both. A wrapper
    that only forwards the doors owns none; ask its leaf.
    """

    @property
    def k_scale_buffer(self) -> Sequence[Tensor]:
        """Key scales, one tensor per owned layer, local order."""
        ...

    @property
    def v_scale_buffer(self) -> Sequence[Tensor]:
        """Value scales, one tensor per owned layer, local order."""
        ...

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Key and value scales of a layer, in the order its attention kernel reads; aliases.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def get_kv_scale_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` of the scales, in bytes: K of all layers, then V of all.

        An item is one PAGE's scales, addressed by the same page numbers as
        `Transferable.get_contiguous_buf_infos`.
        """
        ...
