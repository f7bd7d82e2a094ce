"""Leaves take what sglang's configurator passes, and refuse what they would not do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.adapters.sglang.leaves import SGLangDSALeaf, SGLangMHALeaf, SGLangMLALeaf
from kvproto.protocols import DCPMaskedWrite, IndexerCapable, MHARows, MLALatent
from kvproto.reference import DSALeaf, PooledDSALeaf

PLAIN: dict[str, Any] = {
    "page_size": 4,
    "dtype": torch.bfloat16,
    "device": "cpu",
    "enable_memory_saver": False,
}
HEADS: dict[str, Any] = PLAIN | {"head_num": 2, "head_dim": 8, "layer_num": 2}
LATENT: dict[str, Any] = PLAIN | {"kv_lora_rank": 16, "qk_rope_head_dim": 8, "layer_num": 2}
STAGE: dict[str, Any] = {"start_layer": 3, "end_layer": 5}


def test_rows_by_head_as_sglang_builds_them_for_a_model_without_windows() -> None:
    more: dict[str, Any] = {
        "v_head_dim": 6,
        "enable_alt_stream": True,
        "enable_kv_cache_copy": False,
    }
    leaf = SGLangMHALeaf(16, **HEADS, **STAGE, **more, post_capture_active=False)
    assert (leaf.size, leaf.start_layer, leaf.end_layer) == (16, 3, 5)
    assert leaf.get_value_buffer(3).shape == (20, 2, 6)
    assert isinstance(leaf, MHARows)
    assert leaf.post_capture_active is False


def test_a_window_leaf_has_heads_and_widths_of_its_own() -> None:
    own: dict[str, Any] = {"swa_head_num": 1, "swa_head_dim": 4, "swa_v_head_dim": 3}
    leaf = SGLangMHALeaf(size=16, **HEADS, v_head_dim=6, **own, allocation_label="SWA")
    assert (leaf.head_num, leaf.head_dim, leaf.v_head_dim) == (1, 4, 3)
    assert SGLangMHALeaf(size=16, **HEADS, swa_head_dim=4, v_head_dim=6).v_head_dim == 6


def test_what_is_left_of_a_last_page_is_never_lent() -> None:
    leaf = SGLangMHALeaf(size=18, **HEADS)
    assert (leaf.size, leaf.get_key_buffer(0).shape[0]) == (16, 20)
    assert SGLangMLALeaf(18, **LATENT).size == 16


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"quant_method": "fp4"}, r"quant_method='fp4': rows are stored in dtype=torch\.bfloat16"),
        ({"post_capture_active": True}, "post_capture_active: rows have memory from the start"),
    ],
)
def test_what_rows_by_head_refuse(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SGLangMHALeaf(size=16, **HEADS, **more)


def test_rows_whose_mask_is_false_are_dropped() -> None:
    leaf = SGLangMHALeaf(size=16, **HEADS)
    assert isinstance(leaf, DCPMaskedWrite)
    rows, loc = torch.ones(3, 2, 8, dtype=torch.bfloat16), torch.tensor([4, 5, 6])
    mask = torch.tensor([True, False, True])
    leaf.set_kv_buffer(None, loc, rows, rows, layer_id_override=1, dcp_kv_mask=mask)
    assert leaf.get_key_buffer(1)[:, 0, 0].nonzero().flatten().tolist() == [4, 6]
    leaf.set_kv_buffer(None, loc, rows, rows, layer_id_override=0, dcp_kv_mask=None)
    assert leaf.get_value_buffer(0)[:, 0, 0].nonzero().flatten().tolist() == [4, 5, 6]


def test_latent_rows_as_sglang_builds_them() -> None:
    leaf = SGLangMLALeaf(16, **LATENT, **STAGE)
    assert isinstance(leaf, MLALatent)
    assert leaf.get_key_buffer(4).shape == (20, 1, 24)
    with pytest.raises(ValueError, match="dcp_replicated: a page of this leaf holds one rank's"):
        SGLangMLALeaf(16, **LATENT, dcp_replicated=True)


@pytest.mark.parametrize(("kpool", "made"), [(1, DSALeaf), (4, PooledDSALeaf)])
def test_indexed_rows_are_of_the_class_that_fits(kpool: int, made: type) -> None:
    indexed = LATENT | {"page_size": 64, "index_head_dim": 128, "kv_cache_dim": 24}
    leaf: object = SGLangDSALeaf(
        130, **indexed, index_kpool=kpool, tail_extra_slots=0, max_running_requests=4
    )
    assert type(leaf) is made  # with KVPROTO_DEBUG a class of the same name
    assert isinstance(leaf, IndexerCapable)
    asked: Any = IndexerCapable
    assert issubclass(SGLangDSALeaf, asked)
