"""The window pair: two leaves behind one door, and exactly what the leaves allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.debug import ContractViolation, validate
from kvproto.protocols import (
    CapabilityError,
    Composite,
    DeclaresRegions,
    DeclaresTraits,
    Declined,
    DSALeafRequest,
    HostCopyable,
    IndexerCapable,
    KVLeaf,
    KVPool,
    LayerIdReporting,
    LeafRequest,
    MHALeafRequest,
    MHARows,
    MLALatent,
    MLALeafRequest,
    Movable,
    ScaledWrite,
    SizeReporting,
    StateTransferable,
    SWACapable,
    SWAComposite,
    SWAPoolRequest,
    Transferable,
    buf_infos,
    explain,
)
from kvproto.reference.build_composite import build_reference_pool
from kvproto.reference.dsa import DSALeaf
from kvproto.reference.mha import MHALeaf
from kvproto.reference.mla import MLALeaf
from kvproto.reference.swa_parts import swa_pool
from tests.reference.foreign import DoorsOnlyLeaf, ForeignIndexedLeaf, ForeignLeaf, layer
from tests.reference.sync_free import SyncFree

ROWS: dict[str, Any] = {
    "page_size": 1,
    "dtype": torch.bfloat16,
    "head_num": 1,
    "head_dim": 2,
    "device": "cpu",
}
LATENT: dict[str, Any] = {
    "page_size": 64,
    "dtype": torch.bfloat16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "device": "cpu",
}


def but(**changes: Any) -> dict[str, Any]:
    """`ROWS` with some of it changed."""
    return ROWS | changes


UNCONDITIONAL: list[type] = [KVPool, Composite, SWACapable, SWAComposite]
OF_BOTH_LEAVES: list[type] = [
    Transferable,
    StateTransferable,
    LayerIdReporting,
    HostCopyable,
    Movable,
    SizeReporting,
    DeclaresTraits,
    DeclaresRegions,
    ScaledWrite,
]


def pair(full: Any, window: Any, full_ids: list[int], window_ids: list[int], **stage: Any) -> Any:
    """Typed as anything: the tests ask for each capability themselves."""
    return swa_pool(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=full_ids,
        swa_attention_layer_ids=window_ids,
        **stage,
    )


def two(leaf: Any, layer_num: int = 1) -> tuple[Any, Any]:
    return (
        leaf(size=8, layer_num=layer_num, **ROWS),
        leaf(size=8, layer_num=layer_num, **ROWS),
    )


def has(pool: object, capability: type) -> bool:
    """`isinstance`, after which the checkers know no more of the pool than before."""
    return isinstance(pool, capability)


def mapped(pool: Any, peers: dict[int, int]) -> Any:
    """Register a table of the whole full space with these peers, -1 at its end."""
    table = torch.zeros(pool.size + pool.page_size + 1, dtype=torch.int64)
    table[-1] = -1
    for full, window in peers.items():
        table[full] = window
    pool.register_mapping(table)
    return pool


def small(leaf: Any = MHALeaf, peers: dict[int, int] | None = None) -> Any:
    """Sixteen full slots, eight window slots; layers 0 and 2 are full, layer 1 is a window."""
    full, window = leaf(size=16, layer_num=2, **ROWS), leaf(size=8, layer_num=1, **ROWS)
    return mapped(pair(full, window, [0, 2], [1]), peers or {3: 1, 4: 2})


def rows(*values: float, width: int = 2) -> Tensor:
    return torch.tensor(values, dtype=torch.bfloat16).view(-1, 1, 1).expand(-1, 1, width)


def keys(pool: Any, layer_id: int) -> list[float]:
    found: list[float] = pool.get_key_buffer(layer_id)[:, 0, 0].tolist()
    return found


def latent_pair(**changes: Any) -> Any:
    full = DSALeaf(size=128, layer_num=2, index_head_dim=128, **LATENT, **changes)
    window = MLALeaf(size=64, layer_num=1, **LATENT)
    return mapped(pair(full, window, [0, 2], [1]), {70: 65, 71: 66})


@pytest.mark.parametrize("capability", UNCONDITIONAL + OF_BOTH_LEAVES)
def test_over_two_mha_leaves_it_has(capability: type) -> None:
    pool = small()
    assert has(pool, capability)
    assert issubclass(type(pool), capability), "settled on the class"
    assert explain(pool, capability) == []


def test_over_two_mha_leaves_it_lacks() -> None:
    """It is no leaf, owns no rows, and keeps neither latent rows nor index keys."""
    for capability in (KVLeaf, MHARows, MLALatent, IndexerCapable):
        assert not has(small(), capability)


def test_rows_are_asked_of_the_leaves() -> None:
    """Heads and widths are told without them, which is declared, not half of a capability."""
    assert (small().k_buffer, small().v_buffer) == (None, None)
    assert explain(small(), MHARows) == ["k_buffer: missing", "v_buffer: missing"]


def test_over_latent_leaves_it_has_latent_doors_and_no_others() -> None:
    full, window = MLALeaf(size=64, layer_num=1, **LATENT), MLALeaf(size=64, layer_num=1, **LATENT)
    pool = pair(full, window, [0], [1])
    assert isinstance(pool, MLALatent)
    assert explain(pool, MLALatent) == []
    assert (pool.kv_lora_rank, pool.qk_rope_head_dim, pool.kv_cache_dim) == (512, 64, 576)
    for capability in (ScaledWrite, IndexerCapable, MHARows):
        assert not has(pool, capability)
    assert not hasattr(pool, "head_num")


def test_index_keys_come_with_a_leaf_that_keeps_some() -> None:
    for pool in (latent_pair(), pair(*_indexed_and_plain(), [0, 2], [1])):
        assert isinstance(pool, IndexerCapable)
        assert explain(pool, IndexerCapable) == []
    assert isinstance(latent_pair(), MLALatent)
    plain = pair(*two(ForeignLeaf), [0], [1])
    assert not isinstance(plain, IndexerCapable)
    assert not hasattr(plain, "set_index_k_scale_buffer")


def _indexed_and_plain() -> tuple[ForeignIndexedLeaf, ForeignLeaf]:
    paged = but(page_size=4)
    return ForeignIndexedLeaf(size=8, layer_num=2, **paged), ForeignLeaf(
        size=4, layer_num=1, **paged
    )


def test_index_keys_are_routed_by_global_id() -> None:
    full, window = _indexed_and_plain()
    pool = pair(full, window, [0, 2], [1])
    key = torch.tensor([[7, 8]], dtype=torch.uint8)
    pool.set_index_k_scale_buffer(2, torch.tensor([5]), key, torch.tensor([0.5]))
    assert full.index_k_with_scale_buffer[1][1, 2:4].tolist() == [7, 8]
    assert not full.index_k_with_scale_buffer[0].any()
    assert pool.get_index_k_with_scale_buffer(2) is full.index_k_with_scale_buffer[1]
    found, scales = pool.get_index_k_scale_buffer(
        2, torch.tensor([2]), torch.tensor([[1]]), seq_len_sum=2, max_seq_len=2
    )
    assert found.tolist() == [[0, 0], [7, 8]]
    assert scales.view(torch.float32).flatten().tolist() == [0.0, 0.5]
    assert [b.shape[0] for b in pool.index_k_with_scale_buffer] == [3, 0, 3]
    assert (pool.index_head_dim, pool.index_page_size, pool.index_kpool) == (2, 4, 1)
    assert pool.get_index_k_with_scale_buffer(1).shape == (0, 24)
    with pytest.raises(ValueError, match=r"layer_id=1 keeps no index keys, the layers \[0, 2\] do"):
        pool.set_index_k_scale_buffer(1, torch.tensor([5]), key, torch.tensor([0.5]))
    with pytest.raises(ValueError, match="layer_id=1 keeps no index keys"):
        pool.get_index_k_scale_buffer(1, torch.tensor([2]), torch.tensor([[1]]), 2, 2)
    with pytest.raises(ValueError, match=r"layer_id=5 is not in this pool, which owns \[0, 1, 2\]"):
        pool.set_index_k_scale_buffer(5, torch.tensor([5]), key, torch.tensor([0.5]))


def test_what_one_leaf_cannot_the_pair_cannot() -> None:
    able, unable = (
        ForeignLeaf(size=8, layer_num=1, **ROWS),
        DoorsOnlyLeaf(size=8, layer_num=1, **ROWS),
    )
    pool = pair(able, unable, [0], [1])
    assert isinstance(pool, SWAComposite)
    for capability in OF_BOTH_LEAVES:
        assert not has(pool, capability), capability.__name__
    foreign = pair(able, ForeignLeaf(size=8, layer_num=1, **ROWS), [0], [1])
    able_too: list[type] = [Transferable, StateTransferable, HostCopyable, Movable]
    for capability in able_too:
        assert has(foreign, capability), capability.__name__
    silent: list[type] = [SizeReporting, DeclaresTraits, DeclaresRegions, ScaledWrite]
    for capability in silent:
        assert not has(foreign, capability), capability.__name__


def test_a_leaf_without_a_layer_has_no_say() -> None:
    empty = DoorsOnlyLeaf(size=8, layer_num=0, **ROWS)
    pool = pair(MHALeaf(size=8, layer_num=1, **ROWS), empty, [3], [])
    for capability in OF_BOTH_LEAVES:
        assert has(pool, capability), capability.__name__
    pool.move_kv_cache(torch.tensor([2]), torch.tensor([1]))
    assert pool.get_state_buf_infos() == ([], [], [])


def test_a_combination_is_one_class_with_a_name_to_read() -> None:
    assert type(small()) is type(small())
    assert type(small()) is not type(latent_pair())
    assert type(small(ForeignLeaf)).__name__ == (
        "SWAPool[Transferable, LayerIdReporting, HostCopyable, Movable]"
    )
    assert type(small(DoorsOnlyLeaf)).__name__ == "SWAPool"


@pytest.mark.parametrize("leaf", [MHALeaf, ForeignLeaf])
def test_padded_rows_reach_neither_space(leaf: Any) -> None:
    """sglang#24743: two tokens, padded to four, whose padding once kept an older step's slots."""
    pool = small(leaf)
    loc = torch.tensor([3, 4, 0, 0])
    assert pool.translate_loc_from_full_to_swa(loc).tolist() == [1, 2, 0, 0]
    pool.swa_kv_pool.get_key_buffer(0)[5:] = 9.0
    nan = float("nan")
    k = rows(5, 6, nan, nan)
    pool.set_kv_buffer(layer(1), loc, k, k)
    assert keys(pool, 1) == [0, 5, 6, 0, 0, 9, 9, 9, 9]
    pool.set_kv_buffer(layer(2), loc, k, k)
    assert keys(pool, 2) == [0, 0, 0, 5, 6, *[0] * 12]
    assert not any(keys(pool, 0))


def test_translation() -> None:
    """The dtype is int64 whatever goes in; the shape stays; nothing wraps."""
    pool = small()
    assert pool.translate_loc_from_full_to_swa(torch.tensor([-1, 3])).tolist() == [-1, 1]
    assert pool.translate_loc_from_full_to_swa(torch.tensor([-5, 0, 7])).tolist() == [-1, 0, 0]
    grid = torch.tensor([[3, 4], [0, -1]], dtype=torch.int32)
    found = pool.translate_loc_from_full_to_swa(grid)
    assert found.tolist() == [[1, 2], [0, -1]]
    assert found.dtype == torch.int64
    assert pool.translate_loc_from_full_to_swa(grid.T[:, ::2]).tolist() == [[1], [2]]
    assert pool.translate_loc_from_full_to_swa(torch.empty(0, dtype=torch.int64)).shape == (0,)
    with pytest.raises(IndexError, match="location 17 is past the last row 16"):
        pool.translate_loc_from_full_to_swa(torch.tensor([3, 17]))


def test_the_table_stays_the_allocators() -> None:
    pool = small()
    table = pool.full_to_swa_index_mapping
    table[4] = 0
    table[0] = 5
    assert pool.translate_loc_from_full_to_swa(torch.tensor([4, 0])).tolist() == [0, 0]
    pool.register_mapping(table.to(torch.int32))
    narrow = torch.tensor([3], dtype=torch.int32)
    assert pool.translate_loc_from_full_to_swa(narrow).dtype == torch.int64
    for wrong in (torch.zeros(16, dtype=torch.int64), torch.zeros(18), torch.zeros(18, 1).long()):
        with pytest.raises(ValueError, match="hold the 17 full locations"):
            pool.register_mapping(wrong)


def test_before_a_mapping_only_full_layers_are_written() -> None:
    pool = pair(*two(MHALeaf), [0], [1])
    assert pool.full_to_swa_index_mapping is None
    pool.set_kv_buffer(layer(0), torch.tensor([2]), rows(1), rows(1))
    with pytest.raises(RuntimeError, match="has to call register_mapping"):
        pool.set_kv_buffer(layer(1), torch.tensor([2]), rows(1), rows(1))


def test_write_locations_of_every_space() -> None:
    """Each layer takes its own space's; what is not given is worked out."""
    pool = small()
    k = rows(5)

    def at(**spaces: int | None) -> Any:
        given = {n: None if v is None else torch.tensor([v]) for n, v in spaces.items()}
        return SimpleNamespace(**{"swa_loc": None, "full_loc": None, "physical": True} | given)

    pool.set_kv_buffer(layer(1), at(loc=3, swa_loc=7), k, k)
    assert keys(pool, 1)[7] == 5
    pool.set_kv_buffer(layer(1), at(loc=3), k, k)
    assert keys(pool, 1)[1] == 5
    pool.set_kv_buffer(layer(1), at(loc=9, full_loc=4), k, k)
    assert keys(pool, 1)[2] == 5
    pool.set_kv_buffer(layer(0), at(loc=9, full_loc=4, swa_loc=7), k, k)
    pool.set_kv_buffer(layer(2), at(loc=9), k, k)
    assert (keys(pool, 0)[4], keys(pool, 2)[9], keys(pool, 0)[9]) == (5, 5, 0)


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
    pool = pair(*_indexed_and_plain(), [0, 2], [1])
    assert pool.get_contiguous_buf_infos()[2] == [16] * 4 + [24] * 2
    assert not isinstance(pool, LayerIdReporting), "the leaf does not say whose index rows are"


def test_latent_parts_are_written_and_read_in_the_layers_space() -> None:
    pool, loc = latent_pair(), torch.tensor([70, 71, 72, 0])
    nope, rope = torch.arange(4.0).view(4, 1, 1).expand(4, 1, 512), torch.ones(4, 1, 64)
    for layer_id in (1, 2):
        pool.set_mla_kv_buffer(layer(layer_id), loc, nope + 1, rope)
    assert pool.swa_kv_pool.get_key_buffer(0)[65:67, 0, 0].tolist() == [1, 2]
    latent, part = pool.get_mla_kv_buffer(layer(1), torch.tensor([71, 72, 70]))
    assert (latent[:, 0, 0].tolist(), part[:, 0, 0].tolist()) == ([2, 0, 1], [1, 0, 1])
    latent, _ = pool.get_mla_kv_buffer(layer(2), loc, dst_dtype=torch.float32)
    assert latent[:, 0, 511].tolist() == [1, 2, 3, 0]
    assert latent.dtype == torch.float32


def test_leaves_may_differ_in_heads_and_widths() -> None:
    full = MHALeaf(size=8, layer_num=1, v_head_dim=64, **but(head_dim=128))
    window = MHALeaf(size=4, layer_num=1, v_head_dim=8, **but(head_num=2, head_dim=16))
    pool = mapped(pair(full, window, [0], [1]), {3: 2})
    assert pool.get_key_buffer(0).shape == (9, 1, 128)
    assert pool.get_value_buffer(1).shape == (5, 2, 8)
    assert (pool.head_num, pool.head_dim, pool.v_head_dim) == (1, 128, 64)
    assert pool.get_v_head_dim() == 64
    pool.set_kv_buffer(layer(1), torch.tensor([3]), torch.ones(1, 2, 16), torch.ones(1, 2, 8))
    assert pool.get_kv_buffer(1)[1][2].sum() == 16
    with pytest.raises(ValueError, match="cache_v has shape"):
        pool.set_kv_buffer(layer(0), torch.tensor([3]), rows(1, width=128), rows(1, width=128))
    assert pool.get_kv_size_bytes() == (9 * 256 + 5 * 64, 9 * 128 + 5 * 32)
    assert pool.mem_usage == sum(pool.get_kv_size_bytes()) / (1 << 30)


def test_scales_reach_the_leaf_of_the_layer() -> None:
    """Three, stored at half scale, is the byte of six: 0x4c in e4m3fn."""
    fp8 = but(dtype=torch.float8_e4m3fn)
    full, window = MHALeaf(size=8, layer_num=1, **fp8), MHALeaf(size=4, layer_num=1, **fp8)
    pool = mapped(pair(full, window, [0], [1]), {3: 2})
    pool.set_kv_buffer(layer(1), torch.tensor([3]), rows(3), rows(3), 0.5, v_scale=0.25)
    assert window.k_buffer[0][2].flatten().tolist() == [0x4C, 0x4C]
    assert window.v_buffer[0][2].flatten().tolist() == [0x54, 0x54]
    pool.set_kv_buffer(layer(0), torch.tensor([3]), rows(3), rows(3))
    assert full.k_buffer[0][3].flatten().tolist() == [0x44, 0x44]
    assert (pool.pool_traits.quant_scheme, pool.pool_traits.fp8_variant) == ("fp8_scaled", "e4m3fn")


def test_ids_and_bounds_are_readable_whatever_the_layers() -> None:
    def leaf(count: int) -> MHALeaf:
        return MHALeaf(size=8, layer_num=count, **ROWS)

    def facts(pool: Any) -> tuple[Any, ...]:
        return pool.start_layer, pool.end_layer, pool.layer_ids, pool.v_head_dim

    assert facts(pair(leaf(2), leaf(1), [8, 10], [9])) == (8, 11, (8, 9, 10), 2)
    assert facts(pair(leaf(2), leaf(0), [0, 1], [])) == (0, 2, (0, 1), 2)
    assert facts(pair(leaf(0), leaf(2), [], [4, 5])) == (4, 6, (4, 5), 2)
    assert facts(pair(leaf(0), leaf(0), [], [])) == (0, 0, (), 2)
    wider = pair(leaf(1), leaf(1), [8], [9], start_layer=6, end_layer=12)
    assert facts(wider) == (6, 12, (8, 9), 2)
    assert (wider.swa_layer_nums, wider.full_layer_nums, wider.layer_num) == (1, 1, 2)
    assert (wider.size, wider.size_swa) == (8, 8)


def test_a_pool_of_windows_only() -> None:
    """Its space is the full one all the same, and its full side exports nothing."""
    empty, window = MHALeaf(size=16, layer_num=0, **ROWS), MHALeaf(size=8, layer_num=2, **ROWS)
    pool = mapped(pair(empty, window, [], [0, 1]), {12: 3, 13: 4})
    pool.set_kv_buffer(layer(1), torch.tensor([12]), rows(5), rows(5))
    pool.move_kv_cache(torch.tensor([13]), torch.tensor([12]))
    assert keys(pool, 1) == [0, 0, 0, 5, 5, 0, 0, 0, 0]
    copy = pool.get_cpu_copy(torch.tensor([12]))
    pool.load_cpu_copy(copy, torch.tensor([13]))
    assert pool.get_contiguous_buf_infos() == ([], [], [])
    assert pool.get_kv_layer_ids() == []
    assert len(pool.get_state_buf_infos()[0]) == 4
    assert pool.get_kv_size_bytes() == window.get_kv_size_bytes()


def test_layer_ids_never_wrap() -> None:
    pool = pair(*two(MHALeaf, 2), [8, 10], [9, 11])
    assert len({pool.get_key_buffer(i).data_ptr() for i in range(8, 12)}) == 4
    for foreign in (0, 7, 4, 12, -1):
        words = rf"layer_id={foreign} is not in this pool, which owns \[8, 9, 10, 11\]"
        for door in (pool.get_key_buffer, pool.get_value_buffer, pool.get_kv_buffer, pool.leaf_for):
            with pytest.raises(ValueError, match=words):
                door(foreign)
        with pytest.raises(ValueError, match=words):
            pool.set_kv_buffer(layer(foreign), torch.tensor([1]), rows(1), rows(1))
    with pytest.raises(ValueError, match="owns no layers"):
        pair(*two(MHALeaf, 0), [], []).leaf_for(0)


def test_a_leaf_keeps_its_own_ids() -> None:
    """A leaf built for layers 8 and 9 is asked for those, whatever the composite calls them."""
    full = MHALeaf(size=8, layer_num=2, start_layer=8, **ROWS)
    pool = mapped(pair(full, MHALeaf(size=8, layer_num=1, **ROWS), [0, 4], [2]), {3: 1})
    assert pool.leaf_for(4) == (full, 9)
    assert dict(pool.leaves()) == {"full": full, "swa": pool.swa_kv_pool}
    assert dict(pool.layers_mapping) == {0: (0, False), 4: (1, False), 2: (0, True)}
    assert pool.get_kv_layer_ids() == [0, 4, 0, 4]
    given = layer(4)
    pool.set_kv_buffer(given, torch.tensor([3]), rows(5), rows(5))
    assert full.get_key_buffer(9)[3, 0, 0] == 5
    assert given.layer_id == 4


def test_every_door_waits_for_its_layer_and_so_does_the_leaf() -> None:
    pool = pair(*_indexed_and_plain(), [10, 12], [11])
    waited: list[int] = []
    pool.register_layer_transfer_counter(SimpleNamespace(wait_until=waited.append))
    pool.get_key_buffer(12)
    pool.get_value_buffer(11)
    pool.get_index_k_with_scale_buffer(10)
    leaf, leaf_id = pool.leaf_for(12)
    leaf.get_key_buffer(leaf_id)
    assert waited == [2, 1, 0, 2]


@pytest.mark.parametrize("leaf", [MHALeaf, ForeignLeaf])
def test_hot_doors_never_wait_for_the_device(leaf: Any) -> None:
    """sglang#36751."""
    pool, loc = small(leaf), torch.tensor([0, 3, -1, 4])
    k = rows(float("nan"), 1, 2, 3)
    with SyncFree():  # type: ignore[no-untyped-call]
        pool.translate_loc_from_full_to_swa(loc)
        for layer_id in (0, 1):
            pool.set_kv_buffer(layer(layer_id), loc, k, k)
        pool.move_kv_cache(loc, loc.flip(0))


def test_traces_without_breaking_the_graph() -> None:
    pool, window = small(), layer(1)

    def step(loc: Tensor, k: Tensor) -> Tensor:
        pool.set_kv_buffer(window, loc, k, k)
        result: Tensor = pool.get_key_buffer(1).float().sum()
        return result

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    assert compiled(torch.tensor([3, 0]), torch.ones(2, 1, 2)).item() == 2


def test_traits_say_what_the_pair_is() -> None:
    traits = small().pool_traits
    assert (traits.kind, traits.layout, traits.swa_storage) == ("swa", "composite", "mapped_pool")
    assert (traits.state_index_space, traits.index_scheme) == ("swa_pages", "none")
    latent = latent_pair().pool_traits
    assert (latent.replication, latent.index_scheme) == ("tp_replicated", "dsa_fp8_scale")
    assert latent.transfer_layout == "component_groups"


def test_calls_are_checked_in_debug_mode() -> None:
    pool = validate(small())
    assert has(pool, SWAComposite)
    pool.set_kv_buffer(layer(1), torch.tensor([3]), rows(1), rows(1))
    with pytest.raises(ContractViolation):
        pool.set_kv_buffer(layer(1), torch.tensor([[3]]), rows(1), rows(1))


def test_what_does_not_fit_together_is_refused() -> None:
    def leaf(**changes: Any) -> MHALeaf:
        given: dict[str, Any] = {**ROWS, "size": 8, "layer_num": 1, **changes}
        return MHALeaf(**given)

    one = leaf()
    wrong: list[tuple[Any, Any, list[int], list[int], str]] = [
        (one, one, [0], [1], "are the same leaf"),
        (one, leaf(), [0, 2], [1], "the full leaf has 1 layers, 2 ids name them"),
        (one, leaf(layer_num=2), [0], [1, 1], r"swa layer ids \[1, 1\]: none twice"),
        (one, leaf(), [-1], [1], "none negative"),
        (one, leaf(), [1], [1], "a layer is on two sides"),
        (one, leaf(page_size=4), [0], [1], "must agree on page_size: full 1, swa 4"),
        (one, leaf(dtype=torch.float16), [0], [1], "must agree on dtype"),
    ]
    for full, window, full_ids, window_ids, words in wrong:
        with pytest.raises(ValueError, match=words):
            pair(full, window, full_ids, window_ids)
    for stage in ({"start_layer": 1}, {"end_layer": 1}, {"start_layer": -1}):
        with pytest.raises(ValueError, match="the stage has to hold the layers"):
            pair(one, leaf(), [0], [1], **stage)
    with pytest.raises(CapabilityError, match="the swa side of a composite needs KVLeaf"):
        pair(one, object(), [0], [1])
    with pytest.raises(CapabilityError, match="the full side of a composite needs KVLeaf"):
        pair(small(), one, [0], [1])


def request(**changes: Any) -> SWAPoolRequest:
    fields: dict[str, Any] = {
        "full": MHALeafRequest(size=16, layer_num=2, **ROWS),
        "window": MHALeafRequest(size=8, layer_num=1, **ROWS),
        "full_attention_layer_ids": (0, 2),
        "swa_attention_layer_ids": (1,),
    }
    return SWAPoolRequest(**fields | changes)


def test_a_request_is_built_over_whoevers_leaves() -> None:
    """sglang#27679: a vendor's leaves, of no class of ours, are in the composite that is built."""
    asked: list[LeafRequest] = []

    def vendor(given: LeafRequest) -> KVLeaf | Declined:
        asked.append(given)
        keywords = given.keywords()
        dropped = ("end_layer", "enable_memory_saver", "v_head_dim")
        return ForeignLeaf(**{k: v for k, v in keywords.items() if k not in dropped})

    built = build_reference_pool(request(), build_leaf=vendor)
    assert isinstance(built, SWAComposite)
    assert isinstance(built.swa_kv_pool, ForeignLeaf)
    assert asked == [request().full, request().window]
    assert not any(isinstance(built, base) for base in (MHALeaf, ForeignLeaf))
    ours = build_reference_pool(request())
    assert isinstance(ours, SWAComposite)
    assert isinstance(ours.full_kv_pool, MHALeaf)
    assert isinstance(build_reference_pool(request().full), MHALeaf)


def test_pairs_of_latent_leaves_are_built_from_requests() -> None:
    full = DSALeafRequest(size=128, layer_num=1, index_head_dim=128, **LATENT)
    window = MLALeafRequest(size=64, layer_num=1, **LATENT)
    ids = {"full_attention_layer_ids": (3,), "swa_attention_layer_ids": (4,)}
    built = build_reference_pool(request(full=full, window=window, **ids))
    assert isinstance(built, IndexerCapable)
    assert isinstance(built, MLALatent)


def test_a_declined_leaf_declines_the_pool() -> None:
    hnd = MHALeafRequest(size=8, layer_num=1, layout="hnd", **ROWS)
    declined = build_reference_pool(request(window=hnd))
    assert isinstance(declined, Declined)
    assert declined.reason.startswith("the window leaf of a window pair: ")
    refused = build_reference_pool(request(), build_leaf=lambda _: Declined("no memory"))
    assert refused == Declined("the full leaf of a window pair: no memory")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"full_attention_layer_ids": (0,)}, "its leaf is asked for with layer_num=2"),
        ({"full_attention_layer_ids": (0, 1)}, r"swa_attention_layer_ids=\(1,\): \[1\] are full"),
        ({"full_attention_layer_ids": (0, 0)}, "a layer is named twice"),
        ({"swa_attention_layer_ids": (-1,)}, "integers of at least 0"),
        (
            {"window": MHALeafRequest(size=8, layer_num=1, **but(page_size=4))},
            "must have page_size=1, as the full leaf has",
        ),
        (
            {"window": MHALeafRequest(size=8, layer_num=1, **but(dtype=torch.float16))},
            "must have dtype=torch.bfloat16",
        ),
    ],
)
def test_requests_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request(**changes)
