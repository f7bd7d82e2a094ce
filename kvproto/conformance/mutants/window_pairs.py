"""Window pairs, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import (
    MHALeafRequest,
    SWAPoolRequest,
)
from kvproto.reference import (
    SWAPool,
)

from .composite_builders import composite

Infos = tuple[list[int], list[int], list[int]]


@composite("swa.translate", source="lightseekorg/tokenspeed#709")
class WrapsNegativesInTheTable(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        table = self.full_to_swa_index_mapping
        assert table is not None
        return table[kv_indices.long()]


@composite("swa.translate", source="sgl-project/sglang#38519")
class KeepsLocationsWithoutPeer(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        peers = super().translate_loc_from_full_to_swa(kv_indices)
        return torch.where(peers == 0, kv_indices.to(peers.dtype), peers)


@composite("swa.translate-form", source="sgl-project/sglang#24743")
class TakesTheDtypeThatComes(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return super().translate_loc_from_full_to_swa(kv_indices).to(kv_indices.dtype)


@composite("swa.translate-form")
class FlattensLocations(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return super().translate_loc_from_full_to_swa(kv_indices).flatten()


@composite("swa.mapping-live", source="sgl-project/sglang#27779")
class CopiesTheTable(SWAPool):
    def register_mapping(self, full_to_swa_index_mapping: Tensor, /) -> None:
        super().register_mapping(full_to_swa_index_mapping.clone())


@composite("swa.layers", source="sgl-project/sglang#36331")
class MapsToGlobalIds(SWAPool):
    def spoil(self) -> None:
        self.layers_mapping = {i: (i, window) for i, (_, window) in self.layers_mapping.items()}


@composite("swa.layers")
class CountsEveryLayer(SWAPool):
    @property
    def swa_layer_nums(self) -> int:
        return len(self.layer_ids)


def _without_value_width(request: SWAPoolRequest) -> SWAPoolRequest:
    if not isinstance(request.full, MHALeafRequest):
        return request
    return replace(request, full=replace(request.full, v_head_dim=None))


@composite("swa.geometry", source="sgl-project/sglang#39058", asks=_without_value_width)
class ForgetsTheValueWidth(SWAPool):
    pass


@composite("swa.geometry", source="sgl-project/sglang#18039")
class CountsTheReservedPage(SWAPool):
    @property
    def size_swa(self) -> int:
        return super().size_swa + self.page_size


@composite("swa.geometry-all-window", source="sgl-project/sglang#22605")
class ProbesTheFirstFullLayer(SWAPool):
    @property
    def dtype(self) -> torch.dtype:
        return self.full_kv_pool.get_key_buffer(self.full_kv_pool.start_layer).dtype


@composite("swa.write-full")
class TranslatesForEveryLayer(SWAPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        peers = self.translate_loc_from_full_to_swa(loc)
        return peers if place.leaf is self.swa_kv_pool else torch.where(peers > 0, loc, 0)


@composite("swa.write-window", source="sgl-project/sglang#24138")
class WritesWindowsAtFullLocations(SWAPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        size = place.leaf.size + place.leaf.page_size
        return torch.where(loc < size, loc, 0)


@composite("swa.bare-loc", source="sgl-project/sglang#27617")
class NeedsTranslatedLocations(SWAPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        if isinstance(loc_info, Tensor) or loc_info.swa_loc is not None:
            return super()._locations(place, loc_info)
        loc = cast("Tensor", loc_info.loc)
        return loc.clamp(max=place.leaf.size) if place.leaf is self.swa_kv_pool else loc


@composite("swa.padding", source="sgl-project/sglang#24743")
class StoresPaddedWindowRows(SWAPool):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        place = self._place(layer.layer_id)
        if place.leaf is not self.swa_kv_pool:
            super().set_kv_buffer(layer, loc_info, *rows, **named)
            return
        loc = self._locations(place, loc_info).clamp(min=0)
        for buffer, given in zip(place.leaf.get_kv_buffer(place.layer_id), rows, strict=False):
            buffer[loc, ..., : given.shape[-1]] = given.to(buffer.dtype)[..., : buffer.shape[-1]]


@composite("swa.move", source="sgl-project/sglang#31215")
class MovesOntoWindowSlotZero(SWAPool):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        cast("Any", self.full_kv_pool).move_kv_cache(tgt_loc, src_loc)
        targets, sources = map(self.translate_loc_from_full_to_swa, (tgt_loc, src_loc))
        window = self.swa_kv_pool
        for layer_id in range(window.start_layer, window.end_layer):
            for buffer in window.get_kv_buffer(layer_id):
                buffer[targets] = buffer[sources]


@composite("swa.move")
class MovesTheFullSideOnly(SWAPool):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        cast("Any", self.full_kv_pool).move_kv_cache(tgt_loc, src_loc)


@composite("swa.host-copy", source="sgl-project/sglang#33385")
class CopiesTheFullSideOnly(SWAPool):
    def get_cpu_copy(self, indices: Tensor, *rest: Any, **named: Any) -> Any:
        return replace(cast("Any", super()).get_cpu_copy(indices, *rest, **named), window=None)


@composite("swa.host-copy")
class RestoresInAnotherOrder(SWAPool):
    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *rest: Any, **named: Any) -> None:
        cast("Any", super()).load_cpu_copy(kv_cache_cpu, indices.flip(0), *rest, **named)


@composite("swa.transfer", source="sgl-project/sglang#23539")
class HidesTheWindow(SWAPool):
    def get_state_buf_infos(self) -> Infos:
        return [], [], []


@composite("swa.transfer")
class ExportsTheWindowTwice(SWAPool):
    def get_contiguous_buf_infos(self) -> Infos:
        full, window = (
            cast("Any", leaf).get_contiguous_buf_infos()
            for leaf in (self.full_kv_pool, self.swa_kv_pool)
        )
        pointers, lengths, items = (a + b for a, b in zip(full, window, strict=True))
        return pointers, lengths, items


@composite("swa.transfer", source="sgl-project/sglang#26490")
class CountsWindowItemsByToken(SWAPool):
    def get_state_buf_infos(self) -> Infos:
        pointers, lengths, items = cast("Any", super()).get_state_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


@composite("swa.sync-free", source="sgl-project/sglang#36751")
class FiltersBeforeTranslating(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        peers = torch.zeros(kv_indices.shape, dtype=torch.int64)
        there = kv_indices > 0
        peers[there] = super().translate_loc_from_full_to_swa(kv_indices[there])
        return peers
