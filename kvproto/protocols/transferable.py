"""Pages that another process may read and write by address."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["LayerIdReporting", "Transferable"]


@runtime_checkable
class Transferable(Capability, Protocol):
    """Can a transfer engine move the pool's pages by address?"""

    @property
    def page_size(self) -> int:
        """Token slots per page."""
        ...

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)`, one entry per region, in bytes.

        `item_lens` counts one PAGE: page `p` of a region is the `item_len` bytes at `ptr + p *
        item_len`, whatever the first dimension of its tensor is. Every `len` is a multiple of its
        `item_len`, and covers the reserved page and all of the final `size`. MHA lists K of all
        layers, then V of all layers; latent pools one region a layer, and where they keep block
        scales one more a layer after those of all; other orders are declared
        (`PoolTraits.transfer_layout`). A stage without layers gives three empty lists. All
        per-token bytes the pool owns are in here, in `StateTransferable`'s regions, or in
        `BlockScaled`'s.
        """
        ...

    def maybe_get_custom_mem_pool(self) -> object | None:
        """The `torch.cuda.MemPool` the buffers live in, or None for the default allocator."""
        ...


@runtime_checkable
class LayerIdReporting(Capability, Protocol):
    """Can the pool name the layer of each region it exports?

    Where it cannot, peers pair regions by position.
    """

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each entry of `get_contiguous_buf_infos`, in its order."""
        ...
