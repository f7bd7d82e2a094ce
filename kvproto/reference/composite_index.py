"""Index keys of a composite: those of the leaves that keep some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from kvproto.protocols import IndexerCapable, supports

from .composite_pool import CompositePool
from .sides import LeafLayer, Side

__all__ = ["IndexDoors"]


class IndexDoors(CompositePool):
    """`IndexerCapable`, where a leaf keeps index keys; widths are that leaf's.

    Layers of a leaf without index keys have none: their buffer has no row, and they can be neither
    written nor gathered from.
    """

    label = "IndexerCapable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does a leaf keep index keys, and are they all addressed alike?"""
        leaves = [side.leaf for side in sides if supports(side.leaf, IndexerCapable)]
        geometries = {(leaf.index_head_dim, leaf.index_page_size) for leaf in leaves}
        return len(geometries) == 1

    @property
    def _indexer(self) -> IndexerCapable:
        leaves = [side.leaf for side in self._owning]
        return next(leaf for leaf in leaves if supports(leaf, IndexerCapable))

    @property
    def index_head_dim(self) -> int:
        """Width of an index key, in elements."""
        return self._indexer.index_head_dim

    @property
    def index_page_size(self) -> int:
        """Index keys per page of the index buffer."""
        return self._indexer.index_page_size

    @property
    def index_kpool(self) -> int:
        """Tokens that share one index key."""
        return self._indexer.index_kpool

    @property
    def index_k_with_scale_buffer(self) -> Sequence[Tensor]:
        """One tensor per owned layer, in the order of `layer_ids`; no row where there are none."""
        return [self._index_rows(layer_id) for layer_id in self.layer_ids]

    def _index_rows(self, layer_id: int) -> Tensor:
        leaf, leaf_id = self.leaf_for(layer_id)
        if not supports(leaf, IndexerCapable):
            return self._no_rows
        return leaf.index_k_with_scale_buffer[leaf_id - leaf.start_layer]

    @property
    def _no_rows(self) -> Tensor:
        return self._indexer.index_k_with_scale_buffer[0][:0]

    def _indexed(self, layer_id: int) -> tuple[IndexerCapable, LeafLayer]:
        place = self._place(layer_id)
        if not supports(place.leaf, IndexerCapable):
            kept = [i for i in self.layer_ids if supports(self.leaf_for(i)[0], IndexerCapable)]
            raise ValueError(f"layer_id={layer_id} keeps no index keys, the layers {kept} do")
        return cast("IndexerCapable", place.leaf), place

    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        """The index pages of a layer, as stored, an alias; `[0, ...]` for a layer without keys."""
        leaf, leaf_id = self.leaf_for(layer_id)
        if not supports(leaf, IndexerCapable):
            return self._no_rows
        return leaf.get_index_k_with_scale_buffer(leaf_id)

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        """Store keys and scales at `[n]` index slots of the layer's own space."""
        leaf, place = self._indexed(layer_id)
        leaf.set_index_k_scale_buffer(place.layer_id, loc, index_k, index_k_scale)

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        """Keys and scales of a batch; `page_indices` are pages of the layer's own space."""
        leaf, place = self._indexed(layer_id)
        return leaf.get_index_k_scale_buffer(
            place.layer_id, seq_len_tensor, page_indices, seq_len_sum, max_seq_len
        )
