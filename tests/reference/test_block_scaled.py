"""Leaves under block scales: their doors, sizes and copies, where no law asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.protocols import (
    BlockScaled,
    DeclaresRegions,
    DeclaresTraits,
    FP4Workspace,
    HostCopyable,
    KVLeaf,
    LatentRows,
    LayerIdReporting,
    LayerOverrideWrite,
    MHALeafRequest,
    MHARows,
    Movable,
    PrefixValidCommit,
    Resumable,
    ScaledWrite,
    SizeReporting,
    Transferable,
    buf_infos,
)
from kvproto.reference import FP4Leaf, MLAFP4Leaf, MXFP8Leaf, NVFP4Leaf
from tests.kernels.torch_formats import torch_formats
from tests.reference.block_scaled import E4M3, LATENT, LAYER, asked, fp4, mxfp8, nvfp4, put, rows

COMMON = (
    KVLeaf,
    Transferable,
    LayerIdReporting,
    HostCopyable,
    Movable,
    SizeReporting,
    DeclaresTraits,
    DeclaresRegions,
    PrefixValidCommit,
    Resumable,
)


BY_HEAD = (*COMMON, MHARows, ScaledWrite, LayerOverrideWrite, BlockScaled)


@pytest.mark.parametrize(
    ("cls", "capabilities"),
    [
        (MXFP8Leaf, BY_HEAD),
        (FP4Leaf, BY_HEAD),
        (NVFP4Leaf, (*BY_HEAD, FP4Workspace)),
        (MLAFP4Leaf, (*COMMON, LatentRows, LayerOverrideWrite)),
    ],
)
def test_has_its_capabilities_by_declaration(cls: type, capabilities: tuple[type, ...]) -> None:
    for capability in capabilities:
        assert issubclass(cls, capability), capability.__name__


def test_only_a_leaf_with_a_workspace_has_one() -> None:
    assert not isinstance(fp4(), FP4Workspace)
    assert not isinstance(mxfp8(), FP4Workspace)
    assert isinstance(nvfp4(), FP4Workspace)
    assert not isinstance(MLAFP4Leaf(**LATENT), BlockScaled)


def test_shapes_and_types_are_those_in_use() -> None:
    leaf = mxfp8(page_size=32)
    assert [tuple(b.shape) for b in leaf.k_buffer] == [(96, 2, 64)] * 2
    assert [tuple(b.shape) for b in leaf.v_scale_buffer] == [(96, 2, 1)] * 2
    assert leaf.k_scale_buffer[0].dtype == torch.float8_e8m0fnu
    assert leaf.store_dtype == torch.uint8
    assert leaf.get_key_buffer(3).dtype == E4M3
    four = fp4()
    assert tuple(four.k_buffer[0].shape) == (96, 2, 32)
    assert tuple(four.k_scale_buffer[0].shape) == (96, 2 * 64 // 16)
    assert four.k_scale_buffer[0].dtype == torch.uint8
    assert tuple(nvfp4().v_scale_buffer[0].shape) == (96, 2, 2)
    assert nvfp4().v_scale_buffer[0].dtype == torch.uint8
    assert nvfp4().get_kv_scale_buffer(3)[1].dtype == E4M3


@pytest.mark.parametrize(("page", "interleaved"), [(32, False), (128, True)])
def test_pages_of_128_have_interleaved_scales_unless_told(page: int, interleaved: bool) -> None:
    leaf = mxfp8(size=128, page_size=page)
    assert leaf.mxfp8_sf_interleaved is interleaved
    assert leaf.pool_traits.scale_layout == ("interleaved" if interleaved else "token_rows")
    shape = (2, 2, 32, 4, 2) if interleaved else (160, 2, 2)
    assert tuple(leaf.k_scale_buffer[0].shape) == shape
    other = mxfp8(size=128, page_size=page, scale_layout="token_rows")
    assert not other.mxfp8_sf_interleaved
    request = MHALeafRequest(**asked(page_size=page, size=128))
    assert request.block_scale_layout == leaf.pool_traits.scale_layout


def test_interleaved_scales_are_the_tile_that_torch_makes() -> None:
    """A page of 128 tokens of one head with four blocks: torch's 128 x 4 tile, byte for byte."""
    leaf = mxfp8(size=128, page_size=128, head_num=1, head_dim=128, v_head_dim=128)
    made = torch.randn(127, 1, 128, generator=torch.Generator().manual_seed(1))
    loc = torch.arange(129, 256)
    leaf.set_kv_buffer(LAYER, loc, made, made)
    oracle = torch_formats()
    scales, elements = oracle.to_mxfp(made.squeeze(1), 32, "mxfp8")
    page = torch.cat([torch.zeros(1, 4, dtype=torch.uint8), scales.view(torch.uint8)])
    stored = leaf.get_kv_scale_buffer(4)[0][1].view(torch.uint8)
    assert torch.equal(stored.flatten(), oracle.to_blocked(page))
    got = leaf.get_key_buffer(4)[129:].squeeze(1).view(torch.uint8)
    assert torch.equal(got, elements.view(torch.uint8))


def test_rows_that_are_quantised_come_with_their_scales() -> None:
    leaf, twin = mxfp8(), mxfp8()
    k, v = put(leaf, [40, 41])
    k8, v8 = (each[40:42] for each in leaf.get_kv_buffer(4))
    k_sf, v_sf = (each[40:42] for each in leaf.get_kv_scale_buffer(4))
    twin.set_kv_buffer(LAYER, torch.tensor([40, 41]), k8, v8, k_sf, v_sf)
    assert _bytes(leaf) == _bytes(twin)
    again = mxfp8()
    again.set_kv_buffer(LAYER, torch.tensor([40, 41]), k, v, k_sf, None)
    assert _bytes(leaf) == _bytes(again)


@pytest.mark.parametrize("scale", [1.0, torch.ones(1), torch.ones(2, 2, 2)])
def test_a_scale_that_is_not_the_rows_own_is_refused(scale: float | Tensor) -> None:
    leaf = mxfp8()
    with pytest.raises(ValueError, match=r"k_scale is .* nothing was written"):
        put(leaf, [1, 2], k_scale=scale)
    stored = rows(1, 64).to(E4M3)
    with pytest.raises(ValueError, match=r"cache_k is torch.float8_e4m3fn, quantised already"):
        leaf.set_kv_buffer(LAYER, torch.tensor([1]), stored, rows(1, 32))
    assert not any(map(any, _bytes(leaf)))


def test_a_scale_of_four_bit_rows_divides_them() -> None:
    for make in (fp4, nvfp4):
        leaf, twin = make(), make()
        k, v = rows(1, 64), rows(1, 32)
        leaf.set_kv_buffer(LAYER, torch.tensor([1]), k, v, 2.0, torch.tensor([4.0]))
        twin.set_kv_buffer(LAYER, torch.tensor([1]), k / 2, v / 4)
        assert _bytes(leaf) == _bytes(twin)
        for wrong in (0.0, -1.0, torch.tensor(float("nan"))):
            with pytest.raises(ValueError, match="positive finite"):
                leaf.set_kv_buffer(LAYER, torch.tensor([1]), k, v, wrong)


def test_a_layers_own_scale_is_divided_by_and_read_with() -> None:
    leaf, plain = nvfp4(), nvfp4()
    leaf.k_global_scales[1], leaf.v_global_scales[1] = 0.5, 0.25
    k, v = put(leaf, [7])
    plain.set_kv_buffer(LAYER, torch.tensor([7]), k * 2, v * 4)
    assert _bytes(leaf) == _bytes(plain)
    ours, theirs = leaf.get_kv_buffer(4), plain.get_kv_buffer(4)
    assert torch.equal(ours[0], theirs[0] / 2)
    assert torch.equal(ours[1], theirs[1] / 4)


def test_read_doors_of_four_bits_are_copies() -> None:
    for leaf in (fp4(), nvfp4()):
        put(leaf, [5])
        key = leaf.get_key_buffer(4)
        assert key.dtype == torch.bfloat16
        key.zero_()
        assert leaf.get_key_buffer(4)[5].any()
        raw = leaf.get_raw_kv_buffer(4)
        assert raw[0].data_ptr() == leaf.k_buffer[1].data_ptr()
        assert raw[3].data_ptr() == leaf.v_scale_buffer[1].data_ptr()
        assert leaf.pool_traits.read_door == "copy"


def test_doors_wait_for_their_layer() -> None:
    waited: list[int] = []
    for leaf in (mxfp8(), fp4(), nvfp4()):
        counter: Any = SimpleNamespace(wait_until=waited.append)
        leaf.register_layer_transfer_counter(counter)
        leaf.get_kv_scale_buffer(4)
        if not isinstance(leaf, MXFP8Leaf):
            leaf.get_raw_kv_buffer(4)
    assert waited == [1] * 5


def test_sizes_count_scales_and_the_workspace() -> None:
    slots, layers = 96, 2
    assert mxfp8().get_kv_size_bytes() == (
        layers * slots * 2 * (64 + 2),
        layers * slots * 2 * (32 + 1),
    )
    per_token = (layers * 2 * (32 + 4), layers * 2 * (16 + 2))
    assert fp4().get_kv_size_bytes() == tuple(slots * each for each in per_token)
    workspace = (slots * 2 * 64, slots * 2 * 32)
    assert nvfp4().get_kv_size_bytes() == tuple(
        slots * each + extra for each, extra in zip(per_token, workspace, strict=True)
    )


def test_the_reserved_slot_is_restored_with_its_scales() -> None:
    for make in (mxfp8, fp4, nvfp4):
        for options in ({}, {"size": 128, "page_size": 128}):
            leaf = make(**options)
            for buffer in (*leaf.k_buffer, *leaf.v_scale_buffer, *leaf.k_scale_buffer):
                buffer.view(torch.uint8).fill_(7)
            leaf.restore_reserved()
            copied = leaf.get_cpu_copy(torch.tensor([0, 1]))
            assert not any(rows[0].any() for rows in copied.rows)
            kept = [rows for rows in copied.rows if rows[1].any()]
            assert all(torch.all(rows[1] == 7) for rows in kept)
            assert len(kept) == 6


def test_a_copy_of_another_number_of_tokens_is_refused_whole() -> None:
    leaf = mxfp8()
    put(leaf, [1, 2])
    copy, before = leaf.get_cpu_copy(torch.tensor([1, 2])), _bytes(leaf)
    with pytest.raises(ValueError, match="holds 2 rows"):
        leaf.load_cpu_copy(copy, torch.tensor([1]))
    assert _bytes(leaf) == before


def test_a_stage_without_layers_exports_nothing() -> None:
    leaf = mxfp8(layer_num=0, start_layer=4, end_layer=4)
    assert leaf.get_contiguous_buf_infos() == leaf.get_kv_scale_buf_infos() == ([], [], [])
    assert leaf.buffer_regions() == ()


def test_scales_are_listed_beside_the_rows() -> None:
    leaf = fp4()
    pointers, lengths, items = leaf.get_kv_scale_buf_infos()
    buffers = leaf.k_scale_buffer + leaf.v_scale_buffer
    assert pointers == [b.data_ptr() for b in buffers]
    assert lengths == [b.nbytes for b in buffers]
    assert items == [32 * 8, 32 * 8, 32 * 4, 32 * 4]
    assert leaf.get_kv_layer_ids() == [3, 4, 3, 4]


def test_latent_rows_list_the_scales_of_all_layers_after_the_rows() -> None:
    leaf = MLAFP4Leaf(**LATENT)
    pointers, _, items = leaf.get_contiguous_buf_infos()
    assert pointers == [b.data_ptr() for b in leaf.kv_buffer + leaf.kv_scale_buffer]
    assert items == [4 * 24, 4 * 24, 4 * 3, 4 * 3]
    assert leaf.get_kv_layer_ids() == [3, 4, 3, 4]
    assert buf_infos(leaf.buffer_regions()) == leaf.get_contiguous_buf_infos()
    assert leaf.pool_traits.transfer_layout == "component_groups"
    assert leaf.kv_cache_dim == 24


def test_latent_parts_are_read_as_they_were_rounded() -> None:
    leaf = MLAFP4Leaf(**LATENT)
    latent = torch.tensor([6.0, -1.5, 0.5, 3.0] * 8).view(1, 32)
    rope = torch.tensor([-2.0, 4.0, 0.0, 6.0] * 4).view(1, 1, 16)
    leaf.set_mla_kv_buffer(LAYER, torch.tensor([9]), latent, rope)
    parts = leaf.get_mla_kv_buffer(LAYER, torch.tensor([9, 0, -1]))
    assert [part.dtype for part in parts] == [torch.bfloat16] * 2
    assert torch.equal(parts[0].float(), torch.stack([latent, *[torch.zeros(1, 32)] * 2]))
    assert torch.equal(parts[1][:1].float(), rope)
    as_fp8 = leaf.get_mla_kv_buffer(LAYER, torch.tensor([9]), dst_dtype=E4M3)
    assert torch.equal(as_fp8[1].float(), rope)
    row = torch.cat([latent.view(1, 1, 32), rope], -1)
    other = MLAFP4Leaf(**LATENT)
    other.set_kv_buffer(LAYER, torch.tensor([9]), row, None)
    assert torch.equal(other.kv_buffer[1], leaf.kv_buffer[1])
    assert torch.equal(other.kv_scale_buffer[1], leaf.kv_scale_buffer[1])
    key, value = leaf.get_kv_buffer(4)
    assert torch.equal(key[9, 0, :32], latent[0].to(torch.bfloat16))
    assert value.data_ptr() == key.data_ptr()


def _bytes(leaf: Any) -> list[list[int]]:
    buffers = (*leaf.k_buffer, *leaf.v_buffer, *leaf.k_scale_buffer, *leaf.v_scale_buffer)
    return [buffer.view(torch.uint8).flatten().tolist() for buffer in buffers]
