"""A move or a host copy that does not fit is refused before anything of it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.reference import CompressedDSALeaf, MHALeaf, SparseIndexLeaf, dsa_leaf
from tests.reference.block_scaled import mxfp8, nvfp4
from tests.reference.dsa_leaves import PACKED, filled, make
from tests.reference.window_pairs import small

LOC = torch.tensor([8, 9])


def mha(**changes: Any) -> MHALeaf:
    given: dict[str, Any] = {"head_num": 2, "head_dim": 3, "layer_num": 2} | changes
    return MHALeaf(16, 4, torch.bfloat16, device="cpu", **given)


def weighed(**changes: Any) -> CompressedDSALeaf:
    keywords: dict[str, Any] = {
        "size": 16,
        "page_size": 8,
        "kv_lora_rank": 4,
        "dtype": torch.bfloat16,
        "qk_rope_head_dim": 2,
        "layer_num": 2,
        "device": "cpu",
        "index_head_dim": 8,
        "index_kpool": 4,
        "index_kpool_compress": True,
        "max_running_requests": 2,
    }
    leaf = dsa_leaf(**(keywords | changes))
    assert isinstance(leaf, CompressedDSALeaf)
    return leaf


def memory(leaf: CompressedDSALeaf) -> list[Tensor]:
    rings = [ring for at in range(2) for ring in leaf.get_compress_tail_buffers(at)]
    return [*leaf.kv_buffer, *leaf.index_k_with_scale_buffer, *rings]


def full_of_ones(**changes: Any) -> CompressedDSALeaf:
    leaf = weighed(**changes)
    for each in memory(leaf):
        each.fill_(1)
    return leaf


@pytest.mark.parametrize(
    ("source", "row", "error"),
    [
        ({}, 3, IndexError),
        ({"tail_extra_slots": 1}, 1, ValueError),
        ({"skip_topk_layers": (True, False)}, 1, ValueError),
    ],
)
def test_rings_that_do_not_fit_write_nothing(
    source: dict[str, Any], row: int, error: type[Exception]
) -> None:
    leaf, held = weighed(), full_of_ones(**source).get_cpu_copy(LOC, req_pool_index=1)
    # All else of the copy fits.
    copy = replace(held, index_keys=full_of_ones().get_cpu_copy(LOC).index_keys)
    with pytest.raises(error, match="nothing was written"):
        leaf.load_cpu_copy(copy, LOC, req_pool_index=row)
    assert not any(each.any() for each in memory(leaf))


@pytest.mark.parametrize("changes", [{"head_dim": 6, "head_num": 1}, {"v_head_dim": 2}])
def test_rows_of_another_geometry_are_not_loaded(changes: dict[str, Any]) -> None:
    source, leaf = mha(**changes), mha()
    for each in (*source.k_buffer, *source.v_buffer):
        each.fill_(1)
    with pytest.raises(ValueError, match=r"the copy holds .* nothing was written"):
        leaf.load_cpu_copy(source.get_cpu_copy(LOC), LOC)
    assert not any(each.any() for each in (*leaf.k_buffer, *leaf.v_buffer))


def test_index_keys_of_another_width_are_not_loaded() -> None:
    source, leaf = filled(), filled()
    copy = source.get_cpu_copy(LOC)
    before = [page.clone() for page in (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer)]
    keys = tuple((k[:, :64], s) for k, s in copy.index_keys)
    rows = tuple(torch.ones_like(each) for each in copy.rows)
    with pytest.raises(ValueError, match=r"uint8 \(2, 64\), must be .* \(2, 128\)"):
        leaf.load_cpu_copy(replace(copy, rows=rows, index_keys=keys), LOC)
    after = (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("wrong", [slice(None, -1), slice(1, None)])
def test_scales_of_another_number_are_not_loaded(wrong: slice) -> None:
    leaf = mxfp8()
    copy = leaf.get_cpu_copy(LOC)
    rows = tuple(torch.ones_like(each) for each in copy.rows)
    with pytest.raises(ValueError, match="the copy holds"):
        leaf.load_cpu_copy(replace(copy, rows=rows[wrong]), LOC)
    narrow = (*rows[:-1], rows[-1][:, :1])
    with pytest.raises(ValueError, match=r"the copy holds .* nothing was written"):
        leaf.load_cpu_copy(replace(copy, rows=narrow), LOC)
    assert not any(each.any() for each in (*leaf.k_buffer, *leaf.v_buffer))


@pytest.mark.parametrize("make", [mha, filled, small, mxfp8])
@pytest.mark.parametrize("sources", [[3], [3, 4, 5]])
def test_as_many_sources_as_targets_are_moved(make: Any, sources: list[int]) -> None:
    pool = make()
    with pytest.raises(ValueError, match="nothing was moved"):
        pool.move_kv_cache(torch.tensor([2, 3]), torch.tensor(sources))


@pytest.mark.parametrize("layout", ["token_rows", "preshuffled"])
@pytest.mark.parametrize("changed", ["dtype", "index_dtype"])
def test_bytes_of_another_fp8_format_are_not_loaded(layout: str, changed: str) -> None:
    """1.0 of e4m3fnuz is 2.0 of e4m3fn: the same bytes, of the same shape."""
    fn, fnuz = torch.float8_e4m3fn, torch.float8_e4m3fnuz
    elements = {"dtype": fn, "index_dtype": fn, "index_layout": layout}
    source, leaf = make(**(elements | {changed: fnuz})), make(**elements)
    for each in (*source.kv_buffer, *source.index_k_with_scale_buffer):
        each.fill_(0x40)
    with pytest.raises(ValueError, match=r"float8_e4m3fnuz.*must be.*; nothing was written$"):
        leaf.load_cpu_copy(source.get_cpu_copy(LOC), LOC)
    assert not any(each.any() for each in (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer))


@pytest.mark.parametrize("side", ["source", "target"])
def test_packed_rows_are_not_loaded_as_plain_ones_of_their_width(side: str) -> None:
    packed = make(**PACKED)
    plain = make(dtype=torch.float8_e4m3fn, kv_lora_rank=592)
    source, leaf = (packed, plain) if side == "source" else (plain, packed)
    assert packed.kv_buffer[0].shape == plain.kv_buffer[0].shape
    with pytest.raises(ValueError, match=r"the copy holds latent .* nothing was written"):
        leaf.load_cpu_copy(source.get_cpu_copy(LOC), LOC)


def test_a_copy_of_the_same_elements_is_loaded() -> None:
    """Whoever made it: layers, page size and addresses are not what bytes mean."""
    source, leaf = mha(start_layer=4, end_layer=6), mha()
    for each in (*source.k_buffer, *source.v_buffer):
        each.fill_(1)
    leaf.load_cpu_copy(source.get_cpu_copy(LOC), LOC)
    assert all(each[LOC].eq(1).all() for each in (*leaf.k_buffer, *leaf.v_buffer))


def test_four_and_eight_bit_elements_are_told_apart() -> None:
    """MXFP8 rows of 32 and NVFP4 rows of 64 elements are 32 bytes each."""
    source, leaf = nvfp4(), mxfp8(head_dim=32, v_head_dim=32)
    copy = source.get_cpu_copy(LOC)
    assert any("float4_e2m1fn_x2" in each for each in copy.meaning)
    with pytest.raises(ValueError, match=r"float4_e2m1fn_x2.*must be.*float8_e4m3fn"):
        leaf.load_cpu_copy(copy, LOC)


def sparse(index_dtype: torch.dtype, width: int = 4) -> SparseIndexLeaf:
    """Layers 0 and 1, both sparse: index keys alone, and index keys and values."""
    leaf = SparseIndexLeaf(
        size=16,
        page_size=4,
        head_num=2,
        head_dim=3,
        idx_head_dim=width,
        dtype=torch.bfloat16,
        index_dtype=index_dtype,
        dense_layer_ids=[],
        sparse_layer_ids=[0, 1],
        disable_value_sparse_layer_ids=[0],
        device="cpu",
    )
    for buffer in (*leaf.k_buffer, *leaf.v_buffer):
        buffer.fill_(1)
    return leaf


@pytest.mark.parametrize(
    "other",
    [sparse(torch.float8_e4m3fnuz), sparse(torch.bfloat16), sparse(torch.float8_e4m3fn, width=8)],
    ids=["another fp8", "another dtype", "another width"],
)
def test_main_rows_stay_where_index_rows_do_not_fit(other: SparseIndexLeaf) -> None:
    """The main rows of the copy are such as those here, and would come first."""
    leaf = sparse(torch.float8_e4m3fn)
    copy = other.get_cpu_copy(LOC)
    for buffer in (*leaf.k_buffer, *leaf.v_buffer):
        buffer.zero_()
    with pytest.raises(ValueError, match="copy"):
        leaf.load_cpu_copy(copy, LOC)
    assert not any(buffer.any() for buffer in (*leaf.k_buffer, *leaf.v_buffer))
