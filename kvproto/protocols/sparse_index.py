"""A main pool with an index pool beside it, for layers that attend sparsely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

    from .key_only import KeyOnly
    from .layer import AttentionLayer, WriteLocation
    from .leaf import KVLeaf

__all__ = ["SparseIndexed"]


@runtime_checkable
class SparseIndexed(Capability, Protocol):
    """Does the pool keep, for its sparse layers, index keys in the same token slots?

    Index rows share locations with the main rows. Sparse layers with index values are in
    `index_kv_pool`, those without in `index_k_pool`; dense layers are in neither.
    """

    @property
    def main_pool(self) -> KVLeaf:
        """The attention rows of the sparse layers, or of all layers."""
        ...

    @property
    def index_k_pool(self) -> KeyOnly | None:
        """Index keys of the layers without index values; None where there are no such layers."""
        ...

    @property
    def index_kv_pool(self) -> KVLeaf | None:
        """Index keys and values; None where no layer has index values."""
        ...

    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        """All index keys of a sparse layer, whichever pool keeps them.

        :raises ValueError: for a global layer id that is not sparse.
        """
        ...

    def set_index_k_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_idx_k: Tensor,
        k_scale: float | None = None,
        /,
    ) -> None:
        """Store `[n, heads, index dim]` index keys of a layer without index values.

        Locations and scale mean what they do in `ScaledWrite.set_kv_buffer`.

        :raises ValueError: for a layer that is not in `index_k_pool`.
        """
        ...

    def set_fused_kv_index_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        cache_idx_k: Tensor,
        cache_idx_v: Tensor | None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        idx_k_scale: float | None = None,
        idx_v_scale: float | None = None,
        /,
    ) -> None:
        """Store a sparse layer's main and index rows at once.

        The same as a write of each, in any order. `cache_idx_v` is None for layers without
        index values. No tensor is modified.

        :raises ValueError: for a layer that is not sparse.
        """
        ...

    def get_sparse_kv_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`get_contiguous_buf_infos` of the sparse layers alone: their keys, then their values."""
        ...
