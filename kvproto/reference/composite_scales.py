"""Block scales of a composite: those of its leaves, where each keeps some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from kvproto.protocols import BlockScaled

from .composite_pages import BufInfos, all_block_scaled, scale_infos
from .composite_pool import CompositePool
from .sides import Side

__all__ = ["ScaleDoors"]


class ScaleDoors(CompositePool):
    """`BlockScaled`, over leaves that all are."""

    label = "BlockScaled"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does every leaf keep block scales?"""
        return all_block_scaled(sides)

    @property
    def k_scale_buffer(self) -> Sequence[Tensor]:
        """Key scales, one tensor per owned layer, in the order of `layer_ids`."""
        return [self._scales(layer_id)[0] for layer_id in self.layer_ids]

    @property
    def v_scale_buffer(self) -> Sequence[Tensor]:
        """Value scales, one tensor per owned layer, in the order of `layer_ids`."""
        return [self._scales(layer_id)[1] for layer_id in self.layer_ids]

    def _scales(self, layer_id: int) -> tuple[Tensor, Tensor]:
        leaf, leaf_id = self.leaf_for(layer_id)
        scaled, local = cast("BlockScaled", leaf), leaf_id - leaf.start_layer
        return scaled.k_scale_buffer[local], scaled.v_scale_buffer[local]

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Key and value scales of a layer, as its leaf has them, by the leaf's own slots."""
        place = self._place(layer_id)
        return cast("BlockScaled", place.leaf).get_kv_scale_buffer(place.layer_id)

    def get_kv_scale_buf_infos(self) -> BufInfos:
        """The scales of the full side, by full pages."""
        return scale_infos(self._sides[0].leaf)
