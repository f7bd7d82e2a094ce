"""Composites take the write options that all of their leaves take, and hand them on."""

# pyright: reportIncompatibleMethodOverride=false
# Leaves that take fewer options, or others.

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.conformance import check_pool
from kvproto.protocols import (
    DCPMaskedWrite,
    Declined,
    LayerOverrideWrite,
    MHALeafRequest,
    ScaledWrite,
    supports,
)
from kvproto.reference import MHALeaf, build_reference_pool

OPTIONS = (ScaledWrite, LayerOverrideWrite, DCPMaskedWrite)


def _kept(loc_info: Any, mask: Tensor | None) -> Any:
    loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
    return loc if mask is None else torch.where(mask, loc, 0)


class Plain(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, k: Any, v: Any) -> None:  # type: ignore[override]
        super().set_kv_buffer(layer, loc_info, k, v)


class Overridden(MHALeaf):
    def set_kv_buffer(  # type: ignore[override]
        self, layer: Any, loc_info: Any, k: Any, v: Any, *, layer_id_override: int | None = None
    ) -> None:
        super().set_kv_buffer(layer, loc_info, k, v, layer_id_override=layer_id_override)


class Masked(MHALeaf):
    def set_kv_buffer(  # type: ignore[override]
        self, layer: Any, loc_info: Any, k: Any, v: Any, *, dcp_kv_mask: Tensor | None = None
    ) -> None:
        super().set_kv_buffer(layer, _kept(loc_info, dcp_kv_mask), k, v)


class ScaledMasked(MHALeaf):
    def set_kv_buffer(  # type: ignore[override]
        self,
        layer: Any,
        loc_info: Any,
        k: Any,
        v: Any,
        k_scale: Any = None,
        v_scale: Any = None,
        *,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        super().set_kv_buffer(layer, _kept(loc_info, dcp_kv_mask), k, v, k_scale, v_scale)


class OverriddenMasked(MHALeaf):
    def set_kv_buffer(  # type: ignore[override]
        self,
        layer: Any,
        loc_info: Any,
        k: Any,
        v: Any,
        *,
        layer_id_override: int | None = None,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        loc = _kept(loc_info, dcp_kv_mask)
        super().set_kv_buffer(layer, loc, k, v, layer_id_override=layer_id_override)


class Everything(MHALeaf):
    def set_kv_buffer(
        self,
        layer: Any,
        loc_info: Any,
        k: Any,
        v: Any,
        k_scale: Any = None,
        v_scale: Any = None,
        layer_id_override: int | None = None,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        loc = _kept(loc_info, dcp_kv_mask)
        super().set_kv_buffer(layer, loc, k, v, k_scale, v_scale, layer_id_override)


LEAVES = (Plain, MHALeaf, Overridden, Masked, ScaledMasked, OverriddenMasked, Everything)


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_composite_over_these_leaves_keeps_the_laws(leaf: type[MHALeaf]) -> None:
    def build_leaf(request: Any) -> Any:
        if isinstance(request, MHALeafRequest) and request.layout == "nhd":
            return leaf(**request.keywords())
        return Declined("rows by head")

    built: list[object] = []

    def build(request: Any) -> Any:
        built.append(build_reference_pool(request, build_leaf=build_leaf))
        return built[-1]

    specs = ["swa-page16-fp8", "hybrid-page16-odd-ids"]
    laws = ["composite", "write", "fp8.scales", "leaf.write-read"]
    report = check_pool(build, laws=laws, specs=specs)
    assert report.ok, [r.detail for r in report.failures]
    probe = build_leaf(MHALeafRequest(**LEAF))
    taken = [option for option in OPTIONS if supports(probe, option)]
    assert {r.law for r in report.results} >= {"composite.operations", "leaf.write-read"}
    for pool in built:
        assert [option for option in OPTIONS if supports(pool, option)] == taken


LEAF: dict[str, Any] = {
    "size": 4,
    "page_size": 1,
    "dtype": torch.bfloat16,
    "head_num": 1,
    "head_dim": 4,
    "layer_num": 1,
    "device": "cpu",
}
