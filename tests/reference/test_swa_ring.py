"""A ring of window slots per request row: where tokens are, and what is counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.kernels.ring_slots import ring_slots
from kvproto.protocols import (
    AllocatorRequest,
    CapabilityError,
    Composite,
    DeclaresTraits,
    Declined,
    HostCopyable,
    KVPool,
    MHALeafRequest,
    Movable,
    PagedAllocator,
    RequestPoolRequest,
    RequestRingSWA,
    StateTransferable,
    SWAAllocator,
    SWACapable,
    SWAPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
    explain,
    supports,
)
from kvproto.reference import (
    MHALeaf,
    ReqToToken,
    SWARingAllocator,
    SWARingPool,
    build_reference_leaf,
)
from kvproto.reference.build_ring import build_ring_allocator, build_ring_pool
from tests.reference.allocators import (
    decode,
    extend,
    free_pages,
    numbers,
    paged,
    slots,
    tail,
    token,
)
from tests.reference.sync_free import SyncFree


def leaf(size: int, layers: int, page_size: int = 2) -> MHALeafRequest:
    return MHALeafRequest(
        size=size,
        page_size=page_size,
        dtype=torch.float32,
        head_num=1,
        head_dim=2,
        v_head_dim=1,
        layer_num=layers,
        device="cpu",
    )


def asked(ring: int = 4, window: int = 10, page_size: int = 2) -> SWARingPoolRequest:
    """Two full layers, 0 and 3; two window layers, 1 and 2; three rings of four slots."""
    pair = SWAPoolRequest(
        full=leaf(8, 2, page_size),
        window=leaf(window, 2, page_size),
        full_attention_layer_ids=(0, 3),
        swa_attention_layer_ids=(1, 2),
    )
    return SWARingPoolRequest(pair=pair, swa_req_ring_size=ring)


def built() -> SWARingPool:
    pool = build_ring_pool(asked())
    assert isinstance(pool, SWARingPool)
    return pool


def write(pool: SWARingPool, layer_id: int, where: Any, *values: float) -> None:
    layer: Any = SimpleNamespace(layer_id=layer_id)
    k = torch.tensor(values, dtype=torch.float32).view(-1, 1, 1).repeat(1, 1, 2)
    pool.set_kv_buffer(layer, where, k, -k[..., :1])


def both(full: list[int], window: list[int] | None) -> Any:
    ring = None if window is None else slots(*window)
    return SimpleNamespace(loc=slots(*full), swa_loc=ring, full_loc=None, physical=True)


def keys(pool: SWARingPool, layer_id: int) -> list[float]:
    return [float(row[0, 0]) for row in pool.get_key_buffer(layer_id)]


def test_places_follow_row_and_position() -> None:
    rows, positions = slots(0, 1, 2, 2, 2), slots(3, 0, 4, 7, -1)
    with SyncFree():  # type: ignore[no-untyped-call]
        found = ring_slots(rows, positions, 4)
    assert numbers(found) == [3, 4, 8, 11, -1]
    assert ring_slots(rows.int().view(1, 5), positions.int().view(1, 5), 4).tolist() == [
        [3, 4, 8, 11, -1]
    ]


def test_is_what_it_says_and_no_mapped_pair() -> None:
    pool = built()
    for protocol in (KVPool, Composite, RequestRingSWA):
        assert explain(type(pool), protocol) == explain(pool, protocol) == []
    for lacking in (SWACapable, Movable, HostCopyable):
        assert not supports(pool, lacking)
    assert supports(pool, DeclaresTraits)
    traits = pool.pool_traits
    assert (traits.swa_storage, traits.state_index_space) == ("request_ring", "request_slot")
    assert (pool.swa_req_ring_size, pool.num_req_slots, pool.size_swa) == (4, 3, 8)
    assert (pool.request_window, pool.needs_paged_swa_allocator) == (None, False)
    assert pool.layers_mapping == {0: (0, False), 3: (1, False), 1: (0, True), 2: (1, True)}


def test_each_layer_takes_its_own_space() -> None:
    pool = built()
    where = both([5, 6], [8, 9])
    for layer_id in (0, 1):
        write(pool, layer_id, where, 1.0, 2.0)
    assert keys(pool, 0) == [0, 0, 0, 0, 0, 1, 2, 0, 0, 0]
    assert keys(pool, 1) == [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0]
    write(pool, 2, pool.window_slots(slots(2, 2), slots(4, -1)), 3.0, 4.0)
    assert keys(pool, 2) == [0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]
    assert keys(pool, 3) == [0] * 10


def test_full_locations_alone_do_not_say_where_a_ring_has_a_token() -> None:
    pool = built()
    with pytest.raises(ValueError, match=r"no full location says where, give swa_loc"):
        write(pool, 1, both([5], None), 1.0)
    assert keys(pool, 1) == [0] * 12


def test_a_row_leaves_nothing_behind() -> None:
    pool = built()
    for layer_id in (1, 2):
        write(pool, layer_id, torch.arange(1, 12), *range(1, 12))
    marks = pool.swa_valid_from
    assert marks is not None
    marks.copy_(slots(0, 7, 7))
    pool.clear_request_scoped_state(1)
    assert keys(pool, 1) == keys(pool, 2) == [0, 1, 2, 3, 0, 0, 0, 0, 8, 9, 10, 11]
    assert marks.tolist() == [0, 0, 7]
    for row in (-1, 3):
        with pytest.raises(ValueError, match=rf"req_pool_idx={row}: there are rings for 0\.\.2"):
            pool.clear_request_scoped_state(row)


def test_an_item_is_a_ring() -> None:
    pool = built()
    assert supports(pool, StateTransferable)
    ptrs, lens, item_lens = pool.get_request_state_buf_infos()
    assert pool.get_state_buf_infos() == (ptrs, lens, item_lens)
    # Keys of two layers, then values; a ring is 4 slots of 2 floats, or of 1.
    assert (lens, item_lens) == ([96, 96, 48, 48], [32, 32, 16, 16])
    assert ptrs[0] == pool.get_key_buffer(1).data_ptr()


@pytest.mark.parametrize(
    ("ring", "window", "match"),
    [
        (3, 10, "swa_req_ring_size=3: must be a positive multiple of page_size=2"),
        (0, 10, "swa_req_ring_size=0: must be a positive multiple"),
        (8, 10, r"window\.size=10: with its reserved page it must be whole rings of 8"),
        (12, 10, r"window\.size=10: .* at least two"),
    ],
)
def test_rings_that_cannot_be_are_refused(ring: int, window: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        asked(ring, window)
    sides = [build_reference_leaf(leaf(size, 1)) for size in (8, window)]
    assert isinstance(sides[0], MHALeaf)
    assert isinstance(sides[1], MHALeaf)
    with pytest.raises(ValueError, match=r"swa_req_ring_size=|must be whole rings of"):
        SWARingPool(
            full_kv_pool=sides[0],
            swa_kv_pool=sides[1],
            full_attention_layer_ids=[0],
            swa_attention_layer_ids=[1],
            swa_req_ring_size=ring,
        )


@pytest.mark.parametrize(("size", "which"), [(8, "the full leaf"), (10, "the leaf of rings")])
def test_a_leaf_that_is_declined_declines_the_pool(size: int, which: str) -> None:
    def platform(request: Any) -> Any:
        return Declined("no") if request.size == size else build_reference_leaf(request)

    told = build_ring_pool(asked(), build_leaf=platform)
    assert isinstance(told, Declined)
    assert told.reason.startswith(which)


def beside(page_size: int = 4, ring: int = 6, kvcache: object = None) -> SWARingAllocator:
    full = paged(16, page_size) if page_size > 1 else token(16)
    rows = ReqToToken(2, 4, "cpu", enable_memory_saver=False, pre_alloc_size=1)
    return SWARingAllocator(
        full_attn_allocator=full,
        req_to_token_pool=rows,
        swa_req_ring_size=ring,
        kvcache=kvcache,
    )


def test_accounts_are_those_of_the_full_side_and_of_rows() -> None:
    allocator = beside()
    for protocol in (SWAAllocator, PagedAllocator):
        assert explain(SWARingAllocator, protocol) == explain(allocator, protocol) == []
    # A ring of 6 takes two pages of 4; there are 3 rows.
    assert (allocator.swa_ring_cost_tokens, allocator.size_swa) == (8, 24)
    assert extend(allocator, [0], [6], [-1]) == [4, 5, 6, 7, 8, 9]
    assert decode(allocator, [7], [9]) == [10]
    assert tail(allocator, 0, 5, 2) == [12, 13, 14, 15, 16]
    assert (allocator.available_size(), allocator.swa_available_size()) == (0, 24)
    assert tail(allocator, 0, 1, 0) is None
    one = SimpleNamespace(kv=SimpleNamespace(req_pool_idx=None))
    allocator.req_to_token_pool.alloc([one])
    assert allocator.swa_available_size() == 16
    allocator.free_swa(slots(4, 5))
    assert allocator.available_size() == 0
    allocator.free_segments([(slots(4, 5, 6, 7), 0), (slots(8, 9), 4)])
    allocator.free_full_segment(slots(12, 13, 14, 15, 16), start_pos=0)
    assert free_pages(allocator.full_attn_allocator) == [1, 2, 3, 4]


def test_without_pages_every_token_is_its_own() -> None:
    allocator = beside(page_size=1, ring=5)
    assert extend(allocator, [0, 2], [2, 3], [-1, 9]) == [1, 2, 3]
    assert decode(allocator, [3, 4], [2, 3]) == [4, 5]
    assert tail(allocator, 0, 2, 1) == [6, 7]
    assert allocator.swa_available_size() == 15
    found = allocator.translate_loc_from_full_to_swa(slots(-5, 0, 7))
    assert numbers(found) == [-1, 0, 0]


def test_parts_must_be_what_they_are_used_as() -> None:
    rows = ReqToToken(2, 4, "cpu", enable_memory_saver=False)
    wrong: Any = rows
    with pytest.raises(CapabilityError, match="window layers with a ring per request"):
        SWARingAllocator(
            full_attn_allocator=wrong, req_to_token_pool=rows, swa_req_ring_size=4, kvcache=None
        )
    with pytest.raises(ValueError, match="swa_req_ring_size=6: the pool has rings of 4"):
        beside(kvcache=built())
    with pytest.raises(ValueError, match="swa_req_ring_size=0: must be at least 1"):
        beside(ring=0)
    with pytest.raises(ValueError, match="1 requests with swa_tail_len=3 of 2 tokens"):
        tail(beside(), 0, 2, 3)


def test_a_request_builds_the_accounts_over_the_engines_table() -> None:
    request = SWARingAllocatorRequest(
        full=AllocatorRequest(kind="paged", size=16, page_size=4, device="cpu", need_sort=False),
        rows=RequestPoolRequest(size=2, max_context_len=4, device="cpu"),
        swa_req_ring_size=4,
    )
    rows, pool = ReqToToken(5, 4, "cpu", enable_memory_saver=False), built()
    allocator = build_ring_allocator(request, rows, pool)
    assert isinstance(allocator, SWARingAllocator)
    assert allocator.get_kvcache() is pool
    assert (allocator.size, allocator.size_swa) == (16, 20)
    assert build_ring_allocator(request, build_allocator=lambda _: Declined("no")) == Declined(
        "the full side beside rings: no"
    )
