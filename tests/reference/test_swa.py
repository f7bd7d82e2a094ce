"""The window pair: two leaves behind one door, each with its own locations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.debug import ContractViolation, validate
from kvproto.protocols import (
    SWAComposite,
)
from kvproto.reference.mha import MHALeaf
from tests.reference.foreign import ForeignLeaf, layer
from tests.reference.sync_free import SyncFree
from tests.reference.window_pairs import (
    ROWS,
    but,
    has,
    indexed_and_plain,
    keys,
    latent_pair,
    mapped,
    pair,
    rows,
    small,
    two,
)


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
    pool = pair(*indexed_and_plain(), [10, 12], [11])
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


def test_calls_are_checked_in_debug_mode() -> None:
    pool = validate(small())
    assert has(pool, SWAComposite)
    pool.set_kv_buffer(layer(1), torch.tensor([3]), rows(1), rows(1))
    with pytest.raises(ContractViolation):
        pool.set_kv_buffer(layer(1), torch.tensor([[3]]), rows(1), rows(1))
