"""Leaves and builders that serve their own engine only."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

from kvproto.protocols import (
    Declined,
    MHALeafRequest,
)
from kvproto.reference import (
    MHALeaf,
)

from ..block_codec import is_block_scaled
from ..kv_bench import LayerStub
from .registry import MUTANTS, Mutant, mutant


@mutant("debug.validate", source="sgl-project/sglang#27679", serves=MHALeafRequest)
class GatesOnItsOwnClass(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if type(self) is GatesOnItsOwnClass:
            super().set_kv_buffer(layer, loc_info, *rows, **named)


@mutant("platform.composite-over-vendor", source="sgl-project/sglang#27679", serves=MHALeafRequest)
class WantsItsOwnLayerClass(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if isinstance(layer, LayerStub):
            super().set_kv_buffer(layer, loc_info, *rows, **named)


def answers_nothing(request: Any) -> Any:
    if not isinstance(request, MHALeafRequest) or is_block_scaled(request):
        return Declined("K and V rows only")
    if request.layout == "packed_pages":
        return None
    return MHALeaf(**request.keywords()) if request.layout == "nhd" else Declined("NHD rows only")


def gives_no_reason(request: Any) -> Any:
    plain = isinstance(request, MHALeafRequest) and not is_block_scaled(request)
    if plain and request.layout == "nhd":
        return MHALeaf(**request.keywords())
    return Declined("")


for _factory in (answers_nothing, gives_no_reason):
    _source = "sgl-project/sglang#27679"
    MUTANTS.append(Mutant(_factory.__name__, "platform.declines", _source, _factory))
