"""Pools whose pages come back from a host tier wrongly, or are read before they do."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from kvproto.protocols import (
    BufferRegion,
    DeclaresRegions,
    DSALeafRequest,
    LayerTransferCounter,
    MHALeafRequest,
    MLALeafRequest,
)
from kvproto.reference import DSALeaf, HybridLinearPool, MHALeaf, MLALeaf, SWAPool
from kvproto.reference.composite_pool import CompositePool
from kvproto.reference.device_pool_info import HostPoolDecl, MLABufferInfo

from .composite_builders import composite
from .registry import mutant

__all__: list[str] = []


@mutant("host-tier.layer-wait", serves=MLALeafRequest)
class WaitsByGlobalId(MLALeaf):
    def _fenced(self, layer_id: int) -> int:
        if self._counter is not None:
            self._counter.wait_until(layer_id)
        return self._layers.local(layer_id)


@mutant("host-tier.layer-wait", serves=MHALeafRequest)
class ShowsValuesUnwaited(MHALeaf):
    def get_value_buffer(self, layer_id: int, /) -> Any:
        return self.v_buffer[self._layers.local(layer_id)].view(self.dtype)


@composite("host-tier.layer-wait")
class HandsItsCounterOn(CompositePool):
    """To each leaf as it is: thresholds of the stage are taken for those of the leaf."""

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        for side in self._owning:
            side.leaf.register_layer_transfer_counter(layer_transfer_counter)


@composite("host-tier.spaces")
class DeclaresItsFirstLeaf(CompositePool):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return cast("DeclaresRegions", self.lead).buffer_regions()


@composite("host-tier.spaces")
class DeclaresWindowsAsFullPages(SWAPool):
    """The window leaf's rows under the names of full layers."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        told: tuple[BufferRegion, ...] = cast("Any", super()).buffer_regions()
        ids = self.layer_ids
        return tuple(
            replace(region, layer_ids=tuple(ids[-1 - ids.index(i)] for i in region.layer_ids))
            for region in told
        )


@composite("transfer.loopback")
class DeclaresNoState(HybridLinearPool):
    """The slots of recurrent state stay where they are."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        told: tuple[BufferRegion, ...] = cast("Any", super()).buffer_regions()
        return tuple(region for region in told if region.fields[0].name != "state")


@mutant("host-tier.descriptions", source="sgl-project/sglang#37534", serves=MLALeafRequest)
class DescribesLatentPartsOnly(MLALeaf):
    def _buffer_info(self) -> MLABufferInfo:
        whole = super()._buffer_info()
        parts = tuple(rows[..., : self.kv_lora_rank] for rows in whole.buffers)
        return replace(whole, buffers=parts)


@mutant("host-tier.descriptions", source="ROCm/ATOM#1368", serves=DSALeafRequest)
class DeclaresNoHostPoolOfKeys(DSALeaf):
    def host_pool_decls(self) -> tuple[HostPoolDecl, ...]:
        return super().host_pool_decls()[:1]
