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
    """Is there a scale for every block of elements, beside the keys and beside the values?

    Rows mean nothing without their scales: copies, moves and transfers carry both. What a scale
    is follows from `PoolTraits.quant_scheme`, where it lies from `PoolTraits.scale_layout`. A
    composite qualifies where every leaf with a layer does; latent rows have one side and do not.
    """

    @property
    def k_scale_buffer(self) -> Sequence[Tensor]:
        """Key scales, one tensor per owned layer, local order; a composite's by global id."""
        ...

    @property
    def v_scale_buffer(self) -> Sequence[Tensor]:
        """Value scales, in the same order."""
        ...

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Key and value scales of a layer, in the order its attention kernel reads; aliases.

        By token `[size + page_size, heads, head_dim / block]`, the last two perhaps as one;
        interleaved `[pages, heads, 32, page_size / 32, head_dim / block]`, token `t` of a page at
        `[page, head, t % 32, t // 32]`. Slot 0 stays zero bytes. Waits like every read door.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def get_kv_scale_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` of the scales, in bytes: K of all layers, then V of all.

        Of a composite those of the leaf that `Transferable` exports. An item is one PAGE's scales,
        addressed by the same page numbers as `Transferable.get_contiguous_buf_infos`.
        """
        ...
