"""What a leaf is not, and what is not given to one: said in a line, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.adapters.npu.dsa import NPUDSALeaf, NPUScaledDSALeaf
from kvproto.adapters.npu.key_only import NPUKeyOnlyLeaf
from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.mla import NPUMLALeaf
from kvproto.adapters.npu.platform import on_cpu
from kvproto.adapters.npu.sparse import NPUSparseIndexLeaf
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)
from tests.adapters.npu.leaves import BF16, FP8, LEAVES, PAGE, planes

POOL: dict[str, Any] = {"size": 32, "page_size": 16, "device": "cpu"}
HEADS: dict[str, Any] = {"head_num": 2, "head_dim": 32}
LATENT: dict[str, Any] = {"kv_lora_rank": 128, "qk_rope_head_dim": 32}
SPARSE: dict[str, Any] = HEADS | {
    "idx_head_dim": 32,
    "dense_layer_ids": [],
    "sparse_layer_ids": [0, 1],
}
LEAF_OF: dict[Callable[..., Any], dict[str, Any]] = {
    NPUMHALeaf: HEADS | {"layer_num": 2},
    NPUKeyOnlyLeaf: HEADS | {"layer_num": 2},
    NPUMLALeaf: LATENT | {"layer_num": 2},
    NPUDSALeaf: LATENT | {"layer_num": 2, "index_head_dim": 32},
    NPUSparseIndexLeaf: SPARSE,
}
BY_HEAD = (NPUMHALeaf, NPUKeyOnlyLeaf, NPUSparseIndexLeaf)


@pytest.fixture
def nothing_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocated(*_: Any, **__: Any) -> None:
        raise AssertionError("allocated before it was checked")

    monkeypatch.setattr(torch, "zeros", allocated)


@pytest.mark.usefixtures("nothing_allocated")
@pytest.mark.parametrize("leaf", BY_HEAD)
@pytest.mark.parametrize("layout", ["hnd", "vectorized_5d", "page_envelope"])
def test_rows_by_head_have_the_layouts_they_name(leaf: Callable[..., Any], layout: str) -> None:
    with pytest.raises(ValueError, match=rf"kv_cache_layout='{layout}': must be one of nhd, paged"):
        leaf(**POOL, **LEAF_OF[leaf], dtype=BF16, kv_cache_layout=layout)


@pytest.mark.usefixtures("nothing_allocated")
def test_latent_rows_have_the_layouts_they_name() -> None:
    layout: Any = "latent_rows"
    with pytest.raises(ValueError, match="must be one of latent_split, latent_split_nz"):
        NPUMLALeaf(**POOL, **LEAF_OF[NPUMLALeaf], dtype=BF16, kv_cache_layout=layout)


@pytest.mark.usefixtures("nothing_allocated")
@pytest.mark.parametrize("leaf", LEAF_OF)
@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fnuz, torch.int8])
def test_no_leaf_is_of_elements_that_the_devices_do_not_read(
    leaf: Callable[..., Any], dtype: torch.dtype
) -> None:
    with pytest.raises(ValueError, match=f"{dtype}"):
        leaf(**POOL, **LEAF_OF[leaf], dtype=dtype)


@pytest.mark.usefixtures("nothing_allocated")
def test_index_rows_are_of_such_elements_too() -> None:
    with pytest.raises(ValueError, match="fp8 of Ascend devices is float8_e4m3fn"):
        NPUSparseIndexLeaf(**POOL, **SPARSE, dtype=BF16, index_dtype=torch.float8_e5m2)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda dtype: MHALeafRequest(**POOL, **HEADS, layer_num=1, dtype=dtype),
        lambda dtype: MLALeafRequest(
            **POOL, **LATENT, layer_num=1, dtype=dtype, layout="latent_split"
        ),
        lambda dtype: DSALeafRequest(
            **POOL, **LATENT, layer_num=1, dtype=dtype, layout="latent_split", index_head_dim=32
        ),
        lambda dtype: SparseIndexLeafRequest(**POOL, **SPARSE, layer_num=2, dtype=dtype),
    ],
)
def test_rows_of_int8_are_declined(request_of: Callable[[torch.dtype], LeafRequest]) -> None:
    answer = on_cpu().build_leaf(request_of(torch.int8))
    assert isinstance(answer, Declined)
    assert answer.reason.startswith("torch.int8: rows of Ascend devices are one of torch.bfloat16,")


def test_index_keys_are_no_bytes_where_they_are_stored_in_bf16() -> None:
    leaf = LEAVES["latents beside plain keys"]("cpu")
    for given in (torch.uint8, torch.int32):
        with pytest.raises(ValueError, match=f"index_k is {given}"):
            leaf.set_index_k_buffer(4, torch.tensor([PAGE]), torch.full((1, 32), 56, dtype=given))
    assert not any(plane.any() for plane in planes(leaf))


@pytest.mark.parametrize("shape", [(1, 2), (4,), (1, 2, 1), (2, 2), ()])
def test_scales_are_one_a_slot_with_axes_of_1_behind(shape: tuple[int, ...]) -> None:
    leaf: NPUScaledDSALeaf = LEAVES["latents beside scaled keys"]("cpu")
    with pytest.raises(ValueError, match="for 2 locations, or with axes of 1 behind"):
        leaf.set_index_k_scale_buffer(4, torch.tensor([PAGE, 3]), torch.ones(shape))
    assert not leaf.get_index_k_scale_buffer(4).any()
    for allowed in ((2,), (2, 1), (2, 1, 1)):
        leaf.set_index_k_scale_buffer(4, torch.tensor([PAGE, 3]), torch.full(allowed, 2.0))
    assert leaf.get_index_k_scale_buffer(4).view(-1)[[PAGE, 3]].tolist() == [2.0, 2.0]
    assert leaf.index_k_buffer[0].dtype == torch.uint8
    assert leaf.get_index_k_buffer(4).dtype == FP8


def test_a_host_copy_of_other_rows_is_refused_before_a_row_is_written() -> None:
    asked: dict[str, Any] = HEADS | {"layer_num": 2, "dtype": FP8}
    leaf, at = NPUMHALeaf(**POOL, **asked), torch.tensor([3, 17])
    ones = torch.ones(2, 2, 32)
    leaf.set_kv_buffer(None, at, ones, ones, layer_id_override=1)
    copy, before = leaf.get_cpu_copy(at), planes(leaf)
    elsewhere = replace(copy, meaning=tuple(m.replace("fn", "fnuz") for m in copy.meaning))
    narrow = replace(copy, rows=(*copy.rows[:-1], copy.rows[-1][:, :3]))
    fewer, one_row = replace(copy, rows=copy.rows[:-1]), leaf.get_cpu_copy(at[:1])
    for wrong in (elsewhere, narrow, fewer, one_row):
        with pytest.raises(ValueError, match="nothing was written"):
            leaf.load_cpu_copy(wrong, torch.tensor([5, 6]))
    assert all(a.equal(b) for a, b in zip(before, planes(leaf), strict=True))
    leaf.load_cpu_copy(copy, torch.tensor([5, 6]))
    assert leaf.get_key_buffer(1).view(-1, 2, 32)[5:7].float().eq(1).all()
