# pyright: basic, reportMissingImports=false
"""Calls on which sglang's real allocators break a clause, on theirs and on ours.

Each function makes the same calls on the allocator it is given and returns what can be seen;
`differences/allocators.py` names the clause and expects both values.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.disaggregation.decode import DecodeReqToTokenPool
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool

from kvproto.reference.request_pool import ReqToToken
from kvproto.reference.state_slot_allocator import StateSlots
from tests.interop.allocators import our_pair, our_single, real_pair, real_single

__all__ = ["breaks", "requests"]


def breaks() -> dict[str, object]:
    """Case -> what sglang's allocator shows, and what ours does."""
    cases: dict[Callable[[Any], object], tuple[Any, Any]] = {
        a_token_freed_twice: (real_single(4, 1), our_single(4, 1)),
        a_page_freed_in_halves: (real_single(16, 4), our_single(16, 4)),
        a_page_freed_in_halves_to_be_sorted: (real_single(16, 4, True), our_single(16, 4, True)),
        a_stranger_freed: (real_single(16, 4), our_single(16, 4)),
        a_segment_freed_twice: (real_single(16, 4), our_single(16, 4)),
        a_need_inside_a_page: (real_single(16, 4), our_single(16, 4)),
        a_tail_of_nothing: (real_pair(32, 8, 4), our_pair(32, 8, 4)),
        a_segment_without_peers: (real_pair(16, 16, 4), our_pair(16, 16, 4)),
        a_decode_the_window_has_no_room_for: (real_pair(32, 8, 4), our_pair(32, 8, 4)),
        a_decode_beside_a_token_without_a_peer: (real_pair(16, 16, 4), our_pair(16, 16, 4)),
        a_tail_from_inside_a_page: (real_pair(16, 16, 4), our_pair(16, 16, 4)),
        a_full_slot_freed_with_its_peer: (real_pair(16, 16, 4), our_pair(16, 16, 4)),
        a_state_slot_freed_twice: (MambaSlotAllocator(2, "cpu"), StateSlots(2, "cpu")),
        a_group_left_open: (MambaSlotAllocator(4, "cpu"), StateSlots(4, "cpu")),
        slots_taken_ahead_and_cleared: (MambaSlotAllocator(2, "cpu"), StateSlots(2, "cpu")),
    }
    return {
        case.__name__: {"theirs": _seen(case, real), "ours": _seen(case, ours)}
        for case, (real, ours) in cases.items()
    }


def requests() -> dict[str, object]:
    """Request pools: the same calls, the same rows; and a request that is named twice."""
    sizes: dict[str, Any] = {
        "size": 4,
        "max_context_len": 8,
        "device": "cpu",
        "enable_memory_saver": False,
    }
    decode = DecodeReqToTokenPool(**sizes, pre_alloc_size=2)
    return {
        "sglang": _rows(ReqToTokenPool(**sizes)),
        "kvproto": _rows(ReqToToken(**sizes)),
        "sglang decode": _counts(decode),
        "kvproto decode": _counts(ReqToToken(**sizes, pre_alloc_size=2)),
        "named twice": {
            "theirs": _named_twice(ReqToTokenPool(**sizes)),
            "ours": _named_twice(ReqToToken(**sizes)),
        },
    }


def a_token_freed_twice(allocator: Any) -> object:
    taken = allocator.alloc(2)
    allocator.free(taken)
    allocator.free(taken)
    return [allocator.available_size(), _list(allocator.alloc(6)), _list(allocator.alloc(4))]


def a_page_freed_in_halves(allocator: Any) -> object:
    allocator.alloc(4)
    allocator.free(torch.tensor([4, 5]))
    allocator.free(torch.tensor([6, 7]))
    return [allocator.available_size(), sorted(allocator.get_all_free_pages().tolist())]


def a_page_freed_in_halves_to_be_sorted(allocator: Any) -> object:
    return a_page_freed_in_halves(allocator)


def a_stranger_freed(allocator: Any) -> object:
    allocator.alloc(16)
    for slot in (0, -1, 20):
        allocator.free(torch.tensor([slot]))
    return sorted(allocator.get_all_free_pages().tolist())


def a_segment_freed_twice(allocator: Any) -> object:
    row = allocator.alloc(8)
    allocator.free_segment(row, start_pos=0)
    allocator.free_segment(row, start_pos=0)
    return [allocator.available_size(), sorted(allocator.get_all_free_pages().tolist())]


def a_need_inside_a_page(allocator: Any) -> object:
    return _list(allocator.alloc(6))


def a_tail_of_nothing(allocator: Any) -> object:
    stale = torch.tensor([4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7])
    allocator.full_to_swa_index_mapping[4:16] = stale
    _tail(allocator, 12, 0)
    return allocator.full_to_swa_index_mapping[4:16].tolist()


def a_segment_without_peers(allocator: Any) -> object:
    _tail(allocator, 12, 4)
    error = None
    try:
        allocator.free_swa_segment(torch.arange(4, 16), start_pos=0)
    except AssertionError:
        error = "AssertionError"
    free = sorted(allocator.swa_attn_allocator.get_all_free_pages().tolist())
    return [allocator.swa_available_size(), free, error]


def a_decode_the_window_has_no_room_for(allocator: Any) -> object:
    _extend(allocator, 4)
    _extend(allocator, 4)
    seq = torch.tensor([5])
    given = allocator.alloc_decode(seq, seq.clone(), torch.tensor([7]))
    return [_list(given), allocator.full_available_size(), allocator.swa_available_size()]


def a_decode_beside_a_token_without_a_peer(allocator: Any) -> object:
    last = _tail(allocator, 6, 0)[-1]
    seq = torch.tensor([7])
    given = allocator.alloc_decode(seq, seq.clone(), torch.tensor([last]))
    return [_list(given), allocator.full_to_swa_index_mapping[given].tolist()]


def a_tail_from_inside_a_page(allocator: Any) -> object:
    """The window pages of tokens 3 to 7, after the page of token 3 was freed."""
    _tail(allocator, 8, 5)
    allocator.free_swa(torch.tensor([7]))
    free = allocator.swa_attn_allocator.get_all_free_pages().tolist()
    mapped = allocator.full_to_swa_index_mapping[8:12].tolist()
    return {"mapped": mapped, "of them free": sorted({s for s in mapped if s // 4 in free})}


def a_full_slot_freed_with_its_peer(allocator: Any) -> object:
    """sglang's check is off by default; the window page is lost."""
    _extend(allocator, 4)
    try:
        allocator.free_full(torch.arange(4, 8))
    except AssertionError:
        return "AssertionError"
    return [allocator.full_available_size(), allocator.swa_available_size()]


def a_state_slot_freed_twice(allocator: Any) -> object:
    taken = allocator.alloc(1)
    allocator.free(taken)
    allocator.free(taken)
    return [allocator.available_size(), _list(allocator.alloc(3))]


def a_group_left_open(allocator: Any) -> object:
    allocator.alloc_group_begin(2)
    allocator.alloc_group_begin(2)
    allocator.alloc_group_end()
    return allocator.available_size()


def slots_taken_ahead_and_cleared(allocator: Any) -> object:
    allocator.alloc_group_begin(1)
    allocator.clear()
    return [_list(allocator.alloc(1)), _list(allocator.alloc(1))]


def _rows(pool: Any) -> list[object]:
    a, b, c = (_request() for _ in range(3))
    seen: list[object] = [pool.alloc([a]), pool.alloc([b, a]), pool.available_size()]
    pool.free(a)
    seen += [pool.alloc([c, b]), pool.alloc([_request() for _ in range(4)])]
    pool.write((c.kv.req_pool_idx, slice(0, 2)), torch.tensor([5, 6], dtype=torch.int32))
    pool.clear()
    seen += [pool.available_size(), pool.alloc([_request() for _ in range(4)])]
    return [*seen, pool.req_to_token.tolist(), pool.req_generation.tolist()]


def _counts(pool: Any) -> list[object]:
    held = [_request() for _ in range(6)]
    rows = pool.alloc(held)
    full = [sorted(rows), pool.available_size(), pool.alloc([_request()])]
    pool.free(held[2])
    shape = list(pool.req_to_token.shape)
    return [*full, pool.available_size(), shape, pool.pre_alloc_size, pool.size]


def _named_twice(pool: Any) -> object:
    one = _request()
    rows = pool.alloc([one, one])
    return [len(set(rows)), pool.available_size()]


def _request() -> Any:
    """What both pools read; sglang's own has these as properties."""
    return SimpleNamespace(kv=_Held())


class _Held:
    """The part of sglang's request that its pool reads."""

    def __init__(self) -> None:
        self.req_pool_idx: int | None = None
        self.kv_allocated_len = 1

    @property
    def holds_kv(self) -> bool:
        """Whether it has a row."""
        return self.req_pool_idx is not None


def _extend(allocator: Any, tokens: int) -> object:
    zero, seq = torch.tensor([0]), torch.tensor([tokens])
    return allocator.alloc_extend(zero, zero, seq, seq, torch.tensor([-1]), tokens)


def _tail(allocator: Any, tokens: int, swa_tail_len: int) -> list[int]:
    zero, seq, last = torch.tensor([0]), torch.tensor([tokens]), torch.tensor([-1])
    given = allocator.alloc_extend_swa_tail(zero, zero, seq, seq, last, tokens, swa_tail_len)
    return [int(slot) for slot in given]


def _seen(case: Callable[[Any], object], allocator: Any) -> object:
    try:
        return case(allocator)
    except ValueError as error:
        return f"ValueError: {error}"


def _list(given: torch.Tensor | None) -> list[int] | None:
    return None if given is None else given.tolist()
