"""Rows of an integer dtype are refused: cast by value, bytes of fp8 would be stored as others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.kernels import to_stored
from kvproto.reference import KeyOnlyLeaf, MHALeaf, MLALeaf
from tests.reference.block_scaled import fp4, mxfp8, nvfp4
from tests.reference.dsa_leaves import PACKED, make
from tests.reference.stand_ins import Layer

LOC = torch.tensor([1, 2])
ELEMENTS = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.bfloat16]
HEADS: dict[str, Any] = {
    "size": 16,
    "page_size": 16,
    "head_num": 2,
    "head_dim": 16,
    "layer_num": 1,
    "device": "cpu",
}


def bytes_of(*shape: int) -> Tensor:
    """In e4m3fn each is 1.0."""
    return torch.full(shape, 0x38, dtype=torch.uint8)


def refuses(leaf: Any, write: Any) -> None:
    with pytest.raises(ValueError, match=r"^cache_k\w* has dtype torch\.uint8, .*nothing was writ"):
        write()
    buffers = [leaf.kv_buffer] if hasattr(leaf, "kv_buffer") else [leaf.k_buffer, leaf.v_buffer]
    assert not any(buffer.view(torch.uint8).any() for each in buffers for buffer in each)


@pytest.mark.parametrize("layout", ["nhd", "hnd", "vectorized_5d"])
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_rows_by_head(dtype: torch.dtype, layout: Any) -> None:
    leaf, rows = MHALeaf(**HEADS, dtype=dtype, kv_cache_layout=layout), bytes_of(2, 2, 16)
    refuses(leaf, lambda: leaf.set_kv_buffer(None, LOC, rows, rows, layer_id_override=0))


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_latent_rows_and_parts(dtype: torch.dtype) -> None:
    sizes: dict[str, Any] = {"kv_lora_rank": 12, "qk_rope_head_dim": 4}
    leaf = MLALeaf(size=16, page_size=16, dtype=dtype, layer_num=1, device="cpu", **sizes)
    row, parts = bytes_of(2, 1, 16), (bytes_of(2, 1, 12), bytes_of(2, 1, 4))
    refuses(leaf, lambda: leaf.set_kv_buffer(None, LOC, row, None, layer_id_override=0))
    refuses(leaf, lambda: leaf.set_mla_kv_buffer(Layer(), LOC, *parts))


def test_packed_latent_rows() -> None:
    leaf, row = make(**PACKED), bytes_of(2, 1, 576)
    refuses(leaf, lambda: leaf.set_kv_buffer(None, LOC, row, None, layer_id_override=0))


@pytest.mark.parametrize("made", [mxfp8, nvfp4, fp4])
def test_rows_under_block_scales(made: Any) -> None:
    leaf, k, v = made(), bytes_of(2, 2, 64), bytes_of(2, 2, 32)
    refuses(leaf, lambda: leaf.set_kv_buffer(None, LOC, k, v, layer_id_override=4))


def test_keys_alone() -> None:
    leaf = KeyOnlyLeaf(**HEADS, dtype=torch.float8_e4m3fn)
    with pytest.raises(ValueError, match="cache_k has dtype"):
        leaf.set_k_buffer(0, LOC, bytes_of(2, 2, 16))
    assert not leaf.k_buffer[0].any()


@pytest.mark.parametrize("dtype", [*ELEMENTS, torch.float32])
@pytest.mark.parametrize("given", [torch.uint8, torch.int8, torch.int64, torch.bool])
def test_no_kernel_casts_them_by_value(given: torch.dtype, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="must be of a float dtype"):
        to_stored(torch.ones(2, 3, dtype=given), dtype)


def test_what_is_stored_as_it_is_may_be_bytes() -> None:
    rows = bytes_of(2, 3)
    assert to_stored(rows, torch.uint8) is rows
