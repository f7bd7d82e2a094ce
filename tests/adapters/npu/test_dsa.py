"""Latent rows with index keys: slots of the layers that have some, the packed row's bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.adapters.npu.dsa import NPUDSALeaf, NPUScaledDSALeaf
from kvproto.adapters.npu.platform import on_cpu
from kvproto.protocols import Declined, DSALeafRequest, IndexerCapable, supports
from kvproto.protocols.latent_requests import PageShards

FP8 = torch.float8_e4m3fn
PAGES, PAGE, RANK, ROPE, INDEX = 3, 16, 512, 64, 128
GEOMETRY: dict[str, Any] = {
    "size": (PAGES - 1) * PAGE,
    "page_size": PAGE,
    "kv_lora_rank": RANK,
    "qk_rope_head_dim": ROPE,
    "index_head_dim": INDEX,
    "layer_num": 4,
    "start_layer": 10,
    "device": "cpu",
}


def packed() -> NPUScaledDSALeaf:
    return NPUScaledDSALeaf(**GEOMETRY, dtype=FP8, kv_cache_dim=656, indexer_layer_ids=[11, 13])


def plain() -> NPUDSALeaf:
    return NPUDSALeaf(**GEOMETRY, dtype=torch.bfloat16, indexer_layer_ids=[11, 13])


def test_index_keys_have_places_of_their_own() -> None:
    made = plain()
    keys = torch.arange(INDEX).to(torch.bfloat16).view(1, 1, INDEX)
    made.set_index_k_buffer(13, torch.tensor([PAGE + 3]), keys)
    first, second = made.index_k_buffer
    assert first.shape == (PAGES, PAGE, 1, INDEX)
    assert not first.any()
    assert torch.equal(second[1, 3], keys[0])
    assert made.get_index_k_buffer(13).data_ptr() == first.data_ptr() + first.nbytes
    assert not supports(made, IndexerCapable)
    with pytest.raises(ValueError, match=r"layer_id=12 has no index keys here, the"):
        made.get_index_k_buffer(12)
    with pytest.raises(ValueError, match="layer_id=3 is not in this pool"):
        made.get_index_k_buffer(3)


def test_a_packed_row_is_latents_then_rope_then_scales() -> None:
    made = packed()
    latent, rope = torch.zeros(1, 1, RANK), torch.arange(ROPE).view(1, 1, ROPE).float()
    latent[0, 0, 128 * 2 + 5], latent[0, 0, 0] = 448.0 * 4, -448.0
    made.set_mla_kv_buffer(None, torch.tensor([PAGE]), latent, rope, layer_id_override=12)
    row = made.get_key_buffer(12).view(torch.uint8)[1, 0, 0]
    assert row.shape == (656,)
    elements, tail, scales = row[:512].view(FP8), row[512:640], row[640:]
    assert elements[0].item() == -448.0
    assert elements[261].item() == 448.0
    assert elements.float().count_nonzero() == 2
    assert torch.equal(tail.view(torch.bfloat16).float(), rope[0, 0])
    assert scales.view(torch.float32).tolist() == [1.0, 0.0, 4.0, 0.0]
    assert made.get_value_buffer(12).shape == (PAGES, PAGE, 1, 0)
    parts = made.get_mla_kv_buffer(_Layer(12), torch.tensor([PAGE]), torch.float32)
    assert torch.equal(parts[0], latent)
    assert torch.equal(parts[1], rope)


class _Layer:
    def __init__(self, layer_id: int) -> None:
        self.layer_id = layer_id


def test_scales_lie_beside_the_keys_and_travel_behind_them() -> None:
    made = packed()
    loc = torch.tensor([1, 2 * PAGE])
    keys = torch.ones(2, INDEX).to(FP8)
    made.set_index_k_buffer(11, loc, keys)
    made.set_index_k_scale_buffer(11, loc, torch.tensor([0.5, 2.0]))
    scales = made.get_index_k_scale_buffer(11)
    assert scales.shape == (PAGES, PAGE, 1)
    assert scales.flatten()[loc].tolist() == [0.5, 2.0]
    ptrs, lens, items = made.get_state_buf_infos()
    key, scale = PAGE * INDEX, PAGE * 4
    assert items == [0, key, 0, key, 0, scale, 0, scale]
    assert lens == [item * PAGES for item in items]
    buffers = [*made.index_k_buffer, *made.index_k_scale_buffer]
    assert [p for p in ptrs if p] == [b.data_ptr() for b in buffers]
    assert made.get_contiguous_buf_infos()[2] == [656 * PAGE] * 4
    with pytest.raises(ValueError, match="keys with a scale come quantised, as torch"):
        made.set_index_k_buffer(11, loc, keys.float())


@pytest.mark.parametrize(("make", "widths"), [(plain, (512, 64)), (packed, (656, 0))])
def test_a_host_tier_is_given_every_plane(
    make: Callable[[], NPUDSALeaf | NPUScaledDSALeaf], widths: tuple[int, int]
) -> None:
    made = make()
    given = made.get_hicache_transfer_buffers()
    planes = [p for p in (given.k, given.v, given.index_k, given.index_scales) if p is not None]
    assert [*map(type, planes)] == [Tensor] * (3 if make is plain else 4)
    assert sum(plane.nbytes for plane in planes) == sum(_bytes(made))
    assert all(plane.is_contiguous() for plane in planes)
    assert (given.k_width, given.v_width, given.index_width) == (*widths, INDEX)
    assert (given.k.shape[-1], given.v.shape[-1], given.k.shape[0]) == (*widths, 4)
    assert given.index_layer_indices == (1, 3)  # of the leaf's own 0..3
    assert given.index_k is not None
    assert [layer.data_ptr() for layer in given.index_k] == [
        made.get_index_k_buffer(i).data_ptr() for i in (11, 13)
    ]


def _bytes(made: NPUDSALeaf | NPUScaledDSALeaf) -> Iterator[int]:
    """Of every page of rows and of index keys."""
    for infos in (made.get_contiguous_buf_infos(), made.get_state_buf_infos()):
        yield sum(infos[1])


def test_a_stage_may_share_every_choice() -> None:
    made = NPUDSALeaf(**GEOMETRY, dtype=torch.bfloat16, indexer_layer_ids=[])
    assert made.get_hicache_transfer_buffers().index_layer_indices == ()
    assert made.index_k_buffer == []
    assert made.get_state_buf_infos() == ([0] * 4, [0] * 4, [0] * 4)
    assert len(made.buffer_regions()) == 2


@pytest.mark.parametrize("ids", [[13, 11], [11, 11], [9], [14]])
def test_layers_with_keys_are_the_leaf_s_in_order(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=r"must be ascending ids of 10\.\.14 \(exclusive\)"):
        NPUDSALeaf(**GEOMETRY, dtype=torch.bfloat16, indexer_layer_ids=ids)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"layout": "latent_rows"}, "no DSA leaf of an Ascend device with layout='latent_rows'"),
        ({"layout": "latent_split_nz"}, "with layout='latent_split_nz'"),
        ({"index_kpool": 4}, "no index keys of 4 tokens each"),
        ({"dcp_size": 2}, "no index keys of the tokens of 2 ranks"),
        ({"host_to_device_ratio": 2}, "no rows for one of 2 ids"),
        ({"index_dtype": torch.float32}, "index keys in torch.float32 beside rows in"),
        ({"page_shards": PageShards(shard_size=2, scratch_rows=8)}, "one of 2 ranks' pages"),
    ],
)
def test_what_is_not_built_is_declined_by_name(changed: dict[str, Any], told: str) -> None:
    asked: dict[str, Any] = GEOMETRY | {"dtype": torch.bfloat16, "layout": "latent_split"} | changed
    answer = on_cpu().build_leaf(DSALeafRequest(**asked))
    assert isinstance(answer, Declined)
    assert told in answer.reason
