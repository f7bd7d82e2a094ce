"""Composites over block-scaled leaves: they have scales exactly where their leaves do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    BlockScaled,
    HybridPoolRequest,
    LayerIdReporting,
    MHALeafRequest,
    MLALeafRequest,
    QuantScheme,
    StatePoolRequest,
    SWAPoolRequest,
    Transferable,
    buf_infos,
)
from kvproto.reference import build_reference_pool

LAYOUT: dict[str, Any] = {"page_size": 4, "device": "cpu"}


def leaf(scheme: QuantScheme, layers: int, pages: int = 4) -> MHALeafRequest:
    four = scheme in ("fp4_mx16", "nvfp4")
    dtype = torch.float4_e2m1fn_x2 if four else torch.float8_e4m3fn
    return MHALeafRequest(
        **LAYOUT,
        size=4 * pages,
        dtype=dtype,
        quant_scheme=scheme,
        head_num=2,
        head_dim=32,
        layer_num=layers,
    )


def pair(full: MHALeafRequest, window: MHALeafRequest) -> Any:
    ids = tuple(range(full.layer_num)), tuple(range(10, 10 + window.layer_num))
    return build_reference_pool(
        SWAPoolRequest(
            full=full,
            window=window,
            full_attention_layer_ids=ids[0],
            swa_attention_layer_ids=ids[1],
        )
    )


def hybrid(full: MHALeafRequest | MLALeafRequest) -> Any:
    state = StatePoolRequest(
        size=2,
        mamba_layer_ids=(9,),
        conv_state_shape=((2, 2),),
        temporal_state_shape=(1, 2),
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    ids = tuple(range(full.layer_num))
    return build_reference_pool(
        HybridPoolRequest(full=full, state=state, full_attention_layer_ids=ids)
    )


CAPABILITY: type = BlockScaled
SCHEMES: tuple[QuantScheme, ...] = ("mxfp8", "fp4_mx16", "nvfp4")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_over_scaled_leaves_there_are_scales(scheme: QuantScheme) -> None:
    for pool in (pair(leaf(scheme, 2), leaf(scheme, 1)), hybrid(leaf(scheme, 2))):
        assert len(pool.k_scale_buffer) == len(pool.layer_ids)
        assert isinstance(pool, BlockScaled)
        assert issubclass(type(pool), CAPABILITY)


@pytest.mark.parametrize("plain_side", ["full", "window", "both"])
def test_over_one_plain_leaf_there_are_none(plain_side: str) -> None:
    sides = {name: leaf("mxfp8", 1) for name in ("full", "window")}
    for name in sides:
        if plain_side in (name, "both"):
            sides[name] = leaf("fp8_scaled", 1)
    pool = pair(sides["full"], sides["window"])
    assert not isinstance(pool, BlockScaled)
    assert not hasattr(pool, "get_kv_scale_buf_infos")
    assert isinstance(pool, Transferable)
    assert isinstance(pool, LayerIdReporting)


def test_over_latent_rows_there_are_none() -> None:
    latent = MLALeafRequest(
        **LAYOUT,
        size=8,
        dtype=torch.float4_e2m1fn_x2,
        quant_scheme="fp4_mx16",
        kv_lora_rank=32,
        qk_rope_head_dim=16,
        layer_num=2,
    )
    pool = hybrid(latent)
    assert not isinstance(pool, BlockScaled)
    assert len(pool.get_contiguous_buf_infos()[0]) == 4


def test_each_combination_is_a_class_of_its_own() -> None:
    scaled, plain = hybrid(leaf("mxfp8", 1)), hybrid(leaf("fp8_scaled", 1))
    assert type(scaled) is type(hybrid(leaf("nvfp4", 1)))
    assert type(scaled) is not type(plain)
    assert "BlockScaled" in type(scaled).__name__
    assert "BlockScaled" not in type(plain).__name__


def test_a_leaf_without_a_layer_has_no_say() -> None:
    pool = pair(leaf("fp8_scaled", 0), leaf("mxfp8", 2))
    assert pool.get_kv_scale_buf_infos() == ([], [], [])
    assert len(pool.get_state_buf_infos()[0]) == 8
    assert isinstance(pool, BlockScaled)


def test_rows_and_scales_are_listed_apart_where_both_leaves_have_scales() -> None:
    pool = pair(leaf("mxfp8", 2), leaf("mxfp8", 1))
    rows, scales, window = (
        pool.get_contiguous_buf_infos(),
        pool.get_kv_scale_buf_infos(),
        pool.get_state_buf_infos(),
    )
    assert rows == pool.full_kv_pool.get_contiguous_buf_infos()
    assert scales == pool.full_kv_pool.get_kv_scale_buf_infos()
    assert [a + b + c for a, b, c in zip(rows, scales, window, strict=True)] == list(
        buf_infos(pool.buffer_regions())
    )
    assert pool.get_kv_layer_ids() == [0, 1, 0, 1]


def test_rows_and_scales_are_listed_together_where_one_leaf_has_none() -> None:
    pool = pair(leaf("mxfp8", 2), leaf("fp8_scaled", 1))
    rows, window = pool.get_contiguous_buf_infos(), pool.get_state_buf_infos()
    assert len(rows[0]) == 8
    assert pool.get_kv_layer_ids() == [0, 1] * 4
    assert [a + b for a, b in zip(rows, window, strict=True)] == list(
        buf_infos(pool.buffer_regions())
    )


def test_scales_of_a_layer_come_from_its_own_leaf_and_are_waited_for() -> None:
    pool = pair(leaf("fp4_mx16", 1), leaf("fp4_mx16", 2))
    waited: list[int] = []

    class Counter:
        def wait_until(self, threshold: int, /) -> None:
            waited.append(threshold)

    pool.register_layer_transfer_counter(Counter())
    k, v = pool.get_kv_scale_buffer(11)
    assert (k.data_ptr(), v.data_ptr()) == (
        pool.swa_kv_pool.k_scale_buffer[1].data_ptr(),
        pool.swa_kv_pool.v_scale_buffer[1].data_ptr(),
    )
    assert waited == [11]
    with pytest.raises(ValueError, match="layer_id=5 is not in this pool"):
        pool.get_kv_scale_buffer(5)
