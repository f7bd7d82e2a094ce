"""Latent rows in two planes: both call shapes of the writer, both orders, what doors show."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.adapters.npu.mla import LatentLayout, NPUMLALeaf
from kvproto.adapters.npu.platform import on_cpu
from kvproto.protocols import (
    Declined,
    LatentRows,
    MHARows,
    MLALatent,
    MLALeafRequest,
    Movable,
    supports,
)
from kvproto.protocols.latent_requests import PageShards

LAYERS, PAGES, PAGE, RANK, ROPE = 2, 4, 16, 64, 32


def leaf(
    layout: LatentLayout = "latent_split", dtype: torch.dtype = torch.bfloat16, rope: int = ROPE
) -> NPUMLALeaf:
    return NPUMLALeaf(
        size=(PAGES - 1) * PAGE,
        page_size=PAGE,
        dtype=dtype,
        kv_lora_rank=RANK,
        qk_rope_head_dim=rope,
        layer_num=LAYERS,
        start_layer=3,
        device="cpu",
        kv_cache_layout=layout,
    )


def request(**changed: Any) -> MLALeafRequest:
    asked: dict[str, Any] = {
        "size": 256,
        "page_size": 128,
        "dtype": torch.bfloat16,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "layer_num": 1,
        "device": "cpu",
        "layout": "latent_split",
    }
    return MLALeafRequest(**(asked | changed))


def test_parts_lie_by_page_behind_the_two_doors() -> None:
    made = leaf()
    row = torch.arange(RANK + ROPE).to(torch.bfloat16).view(1, 1, -1)
    made.set_kv_buffer(None, torch.tensor([PAGE + 5]), row, None, layer_id_override=4)
    latents, ropes = made.get_kv_buffer(4)
    assert latents.shape == (PAGES, PAGE, 1, RANK)
    assert ropes.shape == (PAGES, PAGE, 1, ROPE)
    assert torch.equal(latents[1, 5, 0], row[0, 0, :RANK])
    assert torch.equal(ropes[1, 5, 0], row[0, 0, RANK:])
    assert latents.count_nonzero() + ropes.count_nonzero() == RANK + ROPE - 1


@pytest.mark.parametrize(
    ("dtype", "c0"), [(torch.bfloat16, 16), (torch.float16, 16), (torch.float8_e4m3fn, 32)]
)
def test_pages_in_nz_order_are_blocks_of_32_bytes(dtype: torch.dtype, c0: int) -> None:
    made, other = leaf("latent_split_nz", dtype), leaf("latent_split", dtype)
    rows = torch.randn(5, 1, RANK + ROPE, generator=torch.Generator().manual_seed(0))
    loc = torch.tensor([1, PAGE - 1, PAGE, 2 * PAGE + 7, PAGES * PAGE - 1])
    for each in (made, other):
        each.set_kv_buffer(None, loc, rows, None, layer_id_override=3)
    exchanged = made.get_hicache_transfer_buffers()  # by page, wherever tokens are in one
    assert exchanged.k.shape == (LAYERS, PAGES, PAGE, 1, RANK)
    assert exchanged.k[1].data_ptr() == made.k_buffer[1].data_ptr()
    for nz, nd in zip(made.get_kv_buffer(3), other.get_kv_buffer(3), strict=True):
        width = nd.shape[-1]
        assert nz.shape == (PAGES, width // c0, PAGE, c0)
        by_token = nz.view(torch.uint8).transpose(1, 2).reshape(PAGES, PAGE, 1, -1)
        assert torch.equal(by_token, nd.contiguous().view(torch.uint8))


def test_a_row_comes_whole_or_in_its_parts_as_ascend_attention_has_them() -> None:
    whole, parted = leaf(), leaf()
    row = torch.randn(2, 1, RANK + ROPE)
    loc = torch.tensor([1, 2], dtype=torch.int32)
    whole.set_kv_buffer(None, loc, row, torch.full((2, 1, RANK), float("nan")), layer_id_override=3)
    latent, rope = row[..., :RANK], row[..., RANK:]
    parted.set_kv_buffer(None, loc, latent, rope, layer_id_override=3)
    for a, b in zip(whole.get_kv_buffer(3), parted.get_kv_buffer(3), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match=r"cache_k has shape \(2, 1, 64\), must be \(2, 1, 96\)"):
        parted.set_kv_buffer(None, loc, latent, None, layer_id_override=3)


def test_two_groups_of_different_widths_travel() -> None:
    made = leaf()
    ptrs, lens, items = made.get_contiguous_buf_infos()
    assert made.pool_traits.transfer_layout == "component_groups"
    assert items == [PAGE * RANK * 2] * LAYERS + [PAGE * ROPE * 2] * LAYERS
    assert lens == [item * PAGES for item in items]
    assert made.get_kv_layer_ids() == [3, 4, 3, 4]
    assert ptrs == [b.data_ptr() for b in (*made.k_buffer, *made.v_buffer)]


def test_a_model_without_rope_has_one_group() -> None:
    made = leaf(rope=0)
    assert made.get_value_buffer(3).shape == (PAGES, PAGE, 1, 0)
    assert len(made.get_contiguous_buf_infos()[0]) == LAYERS
    assert len(made.buffer_regions()) == 1


def test_it_is_latent_and_its_rows_are_no_single_tensor_s() -> None:
    made = leaf()
    assert supports(made, MLALatent)
    assert supports(made, Movable)
    assert not supports(made, LatentRows)
    assert not supports(made, MHARows)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"layout": "latent_rows"}, "no MLA leaf of an Ascend device with layout='latent_rows'"),
        (
            {"layout": "latent_split_nz", "qk_rope_head_dim": 40},
            "NZ order keeps 16 elements of 2 bytes together: rows of [40] are not such",
        ),
        ({"page_shards": PageShards(shard_size=2, scratch_rows=8)}, "one of 2 ranks' pages"),
    ],
)
def test_what_is_not_built_is_declined_by_name(changed: dict[str, Any], told: str) -> None:
    answer = on_cpu().build_leaf(request(**changed))
    assert isinstance(answer, Declined)
    assert told in answer.reason


def test_rows_that_do_not_fit_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(ValueError, match="NZ order keeps 32 elements of 1 bytes together"):
        leaf("latent_split_nz", torch.float8_e4m3fn, rope=16)
