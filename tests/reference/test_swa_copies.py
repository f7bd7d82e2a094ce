"""Tokens of a window pair that move, are copied to the host, or are exported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    LayerIdReporting,
    buf_infos,
)
from kvproto.reference.mha import MHALeaf
from tests.reference.foreign import ForeignLeaf, layer
from tests.reference.window_pairs import (
    but,
    indexed_and_plain,
    keys,
    latent_pair,
    pair,
    rows,
    small,
)


@pytest.mark.parametrize("leaf", [MHALeaf, ForeignLeaf])
def test_a_move_to_a_token_without_a_peer_leaves_window_slot_0(leaf: Any) -> None:
    """sglang#31215."""
    pool = small(leaf, {3: 1, 4: 2, 5: 3})
    loc = torch.tensor([3, 4, 5, 6])
    for layer_id in (0, 1):
        pool.set_kv_buffer(layer(layer_id), loc, rows(30, 40, 50, 60), rows(30, 40, 50, 60))
    pool.move_kv_cache(torch.tensor([7]), torch.tensor([3]))
    assert keys(pool, 1) == [0, 30, 40, 50, 0, 0, 0, 0, 0]
    assert keys(pool, 0)[7] == 30
    pool.move_kv_cache(torch.tensor([4]), torch.tensor([6]))
    assert keys(pool, 1) == [0, 30, 40, 50, 0, 0, 0, 0, 0], "no row to move: none is touched"
    assert keys(pool, 0)[4] == 60


def test_a_move_reads_all_sources_first_in_both_spaces() -> None:
    pool = small(peers={3: 1, 4: 2, 5: 3})
    loc = torch.tensor([3, 4, 5])
    for layer_id in (0, 1, 2):
        pool.set_kv_buffer(layer(layer_id), loc, rows(30, 40, 50), rows(30, 40, 50))
    pool.move_kv_cache(torch.tensor([4, 5, 0, -1]), torch.tensor([3, 4, 5, 5]))
    assert keys(pool, 1)[:5] == [0, 30, 30, 40, 0]
    assert keys(pool, 2)[:7] == [0, 0, 0, 30, 30, 40, 0]
    pool.move_kv_cache(*(torch.empty(0, dtype=torch.int64) for _ in range(2)))
    with pytest.raises(IndexError):
        pool.move_kv_cache(torch.tensor([3]), torch.tensor([17]))
    assert keys(pool, 2)[:7] == [0, 0, 0, 30, 30, 40, 0]


@pytest.mark.parametrize("leaf", [MHALeaf, ForeignLeaf])
def test_a_copy_keeps_what_the_window_holds(leaf: Any) -> None:
    """Two of three tokens are inside the window; restored, another two are."""
    pool = small(leaf, {4: 2, 5: 3, 9: 6, 10: 7})
    loc = torch.tensor([3, 4, 5])
    for layer_id in (0, 1, 2):
        pool.set_kv_buffer(layer(layer_id), loc, rows(30, 40, 50), rows(31, 41, 51))
    copy = pool.get_cpu_copy(loc, mamba_indices=None, req_pool_index=1)
    for part in (pool.full_kv_pool, pool.swa_kv_pool):
        for local in range(part.layer_num):
            part.get_key_buffer(local).zero_()
            part.get_value_buffer(local).zero_()
    # Token 3 had no window row, 4 finds a new peer, 5 finds none.
    pool.load_cpu_copy(copy, torch.tensor([10, 9, 11]), mamba_indices=None, req_pool_index=1)
    assert keys(pool, 1) == [0, 0, 0, 0, 0, 0, 40, 0, 0]
    assert pool.get_value_buffer(1)[6, 0].tolist() == [41, 41]
    assert [keys(pool, 2)[i] for i in (10, 9, 11)] == [30, 40, 50]
    with pytest.raises(ValueError, match="the copy holds 3 rows, asked to load 2"):
        pool.load_cpu_copy(copy, torch.tensor([10, 9]))


def test_a_copy_of_tokens_that_left_the_window() -> None:
    pool = small()
    pool.set_kv_buffer(layer(0), torch.tensor([8]), rows(5), rows(5))
    copy = pool.get_cpu_copy(torch.tensor([8]))
    pool.load_cpu_copy(copy, torch.tensor([3]))
    assert keys(pool, 0)[3] == 5
    assert not any(keys(pool, 1))
    assert pool.cpu_copy_carries_mamba is False


def test_each_side_is_exported_by_its_own_pages() -> None:
    """Two heads of 4 in bf16: 64 bytes a page of 4; the window side is state."""
    geometry: dict[str, Any] = but(page_size=4, head_num=2, head_dim=4)
    full, window = (
        MHALeaf(size=8, layer_num=2, **geometry),
        MHALeaf(size=4, layer_num=1, **geometry),
    )
    pool = pair(full, window, [5, 7], [6])
    assert pool.get_contiguous_buf_infos() == full.get_contiguous_buf_infos()
    assert pool.get_state_buf_infos() == window.get_contiguous_buf_infos()
    assert pool.get_contiguous_buf_infos()[1:] == ([192] * 4, [64] * 4)
    assert pool.get_state_buf_infos()[1:] == ([128] * 2, [64] * 2)
    assert pool.get_kv_layer_ids() == [5, 7, 5, 7]
    assert pool.maybe_get_custom_mem_pool() is None
    assert [region.layer_ids for region in pool.buffer_regions()] == [(5, 7), (5, 7), (6,), (6,)]
    assert buf_infos(pool.buffer_regions()) == _joined(pool)


def _joined(pool: Any) -> tuple[list[int], ...]:
    infos = zip(pool.get_contiguous_buf_infos(), pool.get_state_buf_infos(), strict=True)
    return tuple(full + window for full, window in infos)


def test_index_rows_are_exported_with_the_full_pages() -> None:
    """sglang#23539: one page of a layer is 73728 bytes of rows and 8448 of index keys."""
    pool = latent_pair()
    assert pool.get_contiguous_buf_infos()[2] == [73728, 73728, 8448, 8448]
    assert pool.get_kv_layer_ids() == [0, 2, 0, 2]
    assert pool.get_state_buf_infos()[2] == [73728]
    assert buf_infos(pool.buffer_regions()) == _joined(pool)
    owned = pool.full_kv_pool.get_kv_size_bytes() + pool.swa_kv_pool.get_kv_size_bytes()
    assert sum(_joined(pool)[1]) == owned == pool.get_kv_size_bytes()
    shared = latent_pair(skip_topk_layers=[False, True])
    assert shared.get_contiguous_buf_infos()[2] == [73728, 73728, 8448]
    assert shared.get_kv_layer_ids() == [0, 2, 0]
    assert [b.shape[0] for b in shared.index_k_with_scale_buffer] == [3, 0, 0]


def test_index_rows_of_a_leaf_that_declares_nothing_are_exported_too() -> None:
    pool = pair(*indexed_and_plain(), [0, 2], [1])
    assert pool.get_contiguous_buf_infos()[2] == [16] * 4 + [24] * 2
    assert not isinstance(pool, LayerIdReporting), "the leaf does not say whose index rows are"
