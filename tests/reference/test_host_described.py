"""What a host tier is told of leaves, against sizes counted by hand."""

from __future__ import annotations

from typing import Any, get_args

import torch

from kvproto.protocols import HostMirrorable, supports
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf, PageEnvelopeLeaf
from kvproto.reference.dsa_subset import SubsetDSALeaf
from kvproto.reference.row_layouts import RowLayoutName

ROWS: dict[str, Any] = {"size": 64, "page_size": 16, "layer_num": 2, "device": "cpu"}
PACKED: dict[str, Any] = ROWS | {
    "page_size": 64,
    "dtype": torch.float8_e4m3fn,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "kv_cache_dim": 656,
    "index_head_dim": 128,
}


def heads(**changes: Any) -> dict[str, Any]:
    return ROWS | {"dtype": torch.bfloat16, "head_num": 2, "head_dim": 32} | changes


def test_rows_by_head_are_described_in_their_own_layout() -> None:
    for layout in get_args(RowLayoutName):
        leaf = MHALeaf(**heads(kv_cache_layout=layout, v_head_dim=16, start_layer=3))
        assert supports(leaf, HostMirrorable)
        assert (leaf.host_capacity_tokens, leaf.host_capacity_bytes) == (None, None)
        (info,) = leaf.get_device_pool_infos()
        rows: Any = info.buffer_info
        assert (info.pool_name, info.layer_ids, rows.buffers.layout) == ("kv", (3, 4), layout)
        assert (rows.head_num, rows.head_dim, rows.v_head_dim) == (2, 32, 16)
        for given, held in ((rows.buffers.k, leaf.k_buffer), (rows.buffers.v, leaf.v_buffer)):
            assert [b.data_ptr() for b in given] == [b.data_ptr() for b in held]
        assert sum(b.nbytes for b in (*rows.buffers.k, *rows.buffers.v)) == 2 * 80 * 2 * 48 * 2
        (decl,) = leaf.host_pool_decls()
        assert decl.is_primary
        assert decl.device_pool is leaf


def test_envelopes_are_strided_rows() -> None:
    leaf = PageEnvelopeLeaf(**heads())
    (info,) = leaf.get_device_pool_infos()
    rows: Any = info.buffer_info
    assert rows.buffers.layout == "nhd"
    assert rows.buffers.k[1].stride(0) * 2 == leaf.get_page_envelope_buffer().shape[1] // 16


def test_packed_rows_are_656_bytes_and_index_keys_132() -> None:
    leaf = DSALeaf(**PACKED, skip_topk_layers=[False, True])
    (info,) = leaf.get_device_pool_infos()
    rows: Any = info.buffer_info
    assert rows.packed_fp8
    assert [b.nbytes for b in rows.buffers] == [128 * 656] * 2
    main, keys = leaf.host_pool_decls()
    assert (main.pool_name, keys.pool_name, keys.indices_from_pool) == ("kv", "indexer", "kv")
    assert keys.storage_info is not None
    assert keys.storage_info.page_bytes(64) == 64 * 132
    assert keys.owned_device_layers == (0,)
    assert len(DSALeaf(**PACKED, skip_topk_layers=[True, True]).host_pool_decls()) == 1


def test_a_leaf_of_two_index_spaces_is_not_described() -> None:
    """Its rows go by device slots, its keys by ids."""
    leaf = SubsetDSALeaf(**PACKED, host_to_device_ratio=2)
    assert not supports(leaf, HostMirrorable)
    latent = {k: v for k, v in PACKED.items() if k not in ("kv_cache_dim", "index_head_dim")}
    assert supports(MLALeaf(**latent), HostMirrorable)
