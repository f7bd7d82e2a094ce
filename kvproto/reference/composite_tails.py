"""Unfinished groups of tokens of a composite: those of the leaves that pool their index keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from kvproto.protocols import KPoolTail, supports

from .composite_pool import CompositePool
from .sides import Side

__all__ = ["TailDoors"]


class TailDoors(CompositePool):
    """`KPoolTail`, where a leaf holds tails; tables and locations are of the layer's own space.

    Request rows are the same for every leaf. Layers of a leaf without tails have none.
    """

    label = "KPoolTail"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does a leaf hold tails?"""
        return any(supports(side.leaf, KPoolTail) for side in sides)

    @property
    def _tailed(self) -> list[KPoolTail]:
        leaves = [side.leaf for side in self._owning]
        return [cast("KPoolTail", leaf) for leaf in leaves if supports(leaf, KPoolTail)]

    @property
    def index_kpool_compress(self) -> bool:
        """Whether a leaf weighs the tokens of a group."""
        return any(leaf.index_kpool_compress for leaf in self._tailed)

    @property
    def kpool_use_compress(self) -> bool:
        """Whether a leaf has rings."""
        return any(leaf.kpool_use_compress for leaf in self._tailed)

    def _tails_of(self, layer_id: int) -> tuple[KPoolTail, int]:
        place = self._place(layer_id)
        if not supports(place.leaf, KPoolTail):
            kept = [i for i in self.layer_ids if supports(self.leaf_for(i)[0], KPoolTail)]
            raise ValueError(f"layer_id={layer_id} holds no tails, the layers {kept} do")
        return cast("KPoolTail", place.leaf), place.layer_id

    def get_compress_tail_buffers(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """The key and score rings of a layer, as its leaf has them."""
        leaf, leaf_id = self._tails_of(layer_id)
        return leaf.get_compress_tail_buffers(leaf_id)

    def set_compress_tail_for_request(
        self,
        layer_id: int,
        req_pool_idx: Tensor,
        key_tail: Tensor,
        score_tail: Tensor,
        n_remain: int,
        dst_logical_start: int,
    ) -> None:
        """Put the last tokens of a prefill into the rings of the layer's leaf."""
        leaf, leaf_id = self._tails_of(layer_id)
        leaf.set_compress_tail_for_request(
            leaf_id, req_pool_idx, key_tail, score_tail, n_remain, dst_logical_start
        )

    def kpool_decode_update_index_cache(
        self,
        layer_id: int,
        key: Tensor,
        slot_score: Tensor,
        ape: Tensor,
        block_tables: Tensor,
        req_pool_indices: Tensor,
        positions: Tensor,
        seq_lens: Tensor,
        out_cache_loc: Tensor,
        round_scale: bool = False,
    ) -> None:
        """Add one decoded token per request in the layer's leaf."""
        leaf, leaf_id = self._tails_of(layer_id)
        leaf.kpool_decode_update_index_cache(
            leaf_id,
            key,
            slot_score,
            ape,
            block_tables,
            req_pool_indices,
            positions,
            seq_lens,
            out_cache_loc,
            round_scale,
        )

    def get_compress_tail_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The rings by request row, leaf after leaf."""
        columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        for leaf in self._tailed:
            for column, part in zip(columns, leaf.get_compress_tail_buf_infos(), strict=True):
                column.extend(part)
        return columns
