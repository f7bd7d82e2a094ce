# pyright: basic, reportMissingImports=false
"""The same random sequences of calls through sglang's real allocators and through ours.

Both sides play a script of their own from the same seed; what they return, what is available
and the window mapping are compared after every step. Scripts keep to what sglang's callers may
do; what happens beyond is in `allocator_faults.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.runtime_context import get_context

from kvproto.kernels import follow_platform
from kvproto.reference import slot_allocator
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.state_slot_allocator import StateSlots
from kvproto.reference.swa_allocator import SWAPairAllocator
from kvproto.reference.token_allocator import TokenAllocator
from tests.interop import single_rank  # noqa: F401
from tests.interop.rounding import as_compiled

__all__ = ["Script", "compare", "comparisons", "our_pair", "our_single", "real_pair", "real_single"]

COMMON: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cpu", "kvcache": None}


def comparisons() -> dict[str, object]:
    """Script -> what was played and the first step at which the sides differ, or None."""
    found: dict[str, object] = {}
    for need_sort in (False, True):
        note = ", need_sort" if need_sort else ""
        for page_size in (1, 4, 16):
            sides = (real_single, our_single)
            made = [make(24 * page_size, page_size, need_sort) for make in sides]
            found[f"single, page {page_size}{note}"] = compare(Script, made, 300)
        for page_size in (1, 4):
            sizes = (24 * page_size, 14 * page_size, page_size, need_sort)
            found[f"pair, page {page_size}{note}"] = compare(
                _PairScript, [real_pair(*sizes), our_pair(*sizes)], 300
            )
    interpreted = [make(96, 4, False) for make in (real_single, our_single)]
    interpreted[0].use_triton_kernels = True
    found["single, page 4, Triton kernels"] = compare(Script, interpreted, 80)
    with our_kernels():
        both = [make(96, 4, False) for make in (real_single, our_single)]
        both[0].use_triton_kernels = True
        found["single, page 4, Triton kernels of both"] = compare(Script, both, 80)
        sizes = (96, 56, 4, False)
        pairs = [real_pair(*sizes), our_pair(*sizes)]
        found["pair, page 4, Triton kernels of ours"] = compare(_PairScript, pairs, 300)
    found["state slots"] = compare(_StateScript, [MambaSlotAllocator(12, "cpu"), _states(12)], 300)
    return found


@contextmanager
def our_kernels() -> Iterator[None]:
    """Allocators made in this block do on the CPU what they do on a GPU, interpreted."""
    follow_platform("cpu", True)
    with patch.object(slot_allocator, "has_numpy", False), as_compiled():
        yield
    follow_platform("cpu", False)


def real_single(size: int, page_size: int, need_sort: bool = False) -> Any:
    """sglang's allocator of one space."""
    if page_size == 1:
        return TokenToKVPoolAllocator(size, need_sort=need_sort, **COMMON)
    return PagedTokenToKVPoolAllocator(size, page_size, need_sort=need_sort, **COMMON)


def our_single(size: int, page_size: int, need_sort: bool = False) -> Any:
    """Ours, for the same arguments."""
    if page_size == 1:
        return TokenAllocator(size, need_sort=need_sort, **COMMON)
    return PageAllocator(size, page_size, need_sort=need_sort, **COMMON)


def real_pair(size: int, size_swa: int, page_size: int, need_sort: bool = False) -> Any:
    """sglang's pair over its smallest window pool."""
    pool = SWAKVPool(
        size=size,
        size_swa=size_swa,
        page_size=page_size,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=1,
        swa_attention_layer_ids=[0],
        full_attention_layer_ids=[1],
        device="cpu",
        enable_memory_saver=False,
    )
    with get_context().override_server_args():
        return SWATokenToKVPoolAllocator(
            size, size_swa, page_size, torch.bfloat16, "cpu", pool, need_sort
        )


def our_pair(size: int, size_swa: int, page_size: int, need_sort: bool = False) -> Any:
    """Ours, for the same arguments."""
    full, swa = (our_single(each, page_size, need_sort) for each in (size, size_swa))
    return SWAPairAllocator(full_attn_allocator=full, swa_attn_allocator=swa, kvcache=None)


def _states(size: int) -> StateSlots:
    return StateSlots(size, "cpu")


def compare(script: type[Any], allocators: list[Any], steps: int) -> dict[str, object]:
    """Play on both sides until they differ."""
    sides = [script(allocator, random.Random(7)) for allocator in allocators]
    played: Counter[str] = Counter()
    for step in range(steps):
        real, ours = (side.step() for side in sides)
        played[real[0]] += 1
        if real != ours:
            return {"played": dict(played), "differs": [step, str(real), str(ours)]}
    return {"played": dict(sorted(played.items())), "differs": None}


class Script:
    """Requests that come, grow and go on one allocator."""

    def __init__(self, allocator: Any, dice: random.Random) -> None:
        self.allocator, self.dice = allocator, dice
        self.size = allocator.page_size
        self.requests: list[list[int]] = []
        self.in_group = False

    def step(self) -> tuple[object, ...]:
        name = self.dice.choice(self.names())
        given = getattr(self, name)()
        return name, given, self.state()

    def names(self) -> list[str]:
        paged = ["extend", "extend", "decode", "decode"] if self.size > 1 else []
        free = ["free", "free_segment", "free_segments"] if self.requests else []
        return ["alloc", "group", *paged, *free]

    def state(self) -> object:
        return self.allocator.available_size()

    def alloc(self) -> object:
        given = _list(self.allocator.alloc(self.dice.randrange(1, 6) * self.size))
        self.requests += [given] if given else []
        return given

    def extend(self) -> object:
        batch = [*self.requests[: self.dice.randrange(3)], []][: self.dice.randrange(1, 4)]
        lens = [self.dice.randrange(1, 4 * self.size) for _ in batch]
        return self._continue(batch, lens, self._extend(batch, lens))

    def _extend(self, batch: list[list[int]], lens: list[int]) -> list[int] | None:
        prefix = torch.tensor([len(each) for each in batch])
        seq, last = (
            prefix + torch.tensor(lens),
            torch.tensor([(each or [-1])[-1] for each in batch]),
        )
        return _list(
            self.allocator.alloc_extend(prefix, prefix.clone(), seq, seq.clone(), last, sum(lens))
        )

    def decode(self) -> object:
        batch = self.requests[: self.dice.randrange(1, 6)]
        if not batch:
            return None
        seq = torch.tensor([len(each) + 1 for each in batch])
        last = torch.tensor([each[-1] for each in batch])
        given = _list(self.allocator.alloc_decode(seq, seq.clone(), last))
        return self._continue(batch, [1] * len(batch), given)

    def _continue(self, batch: list[list[int]], lens: list[int], given: list[int] | None) -> object:
        rest = list(given or ())
        for each, more in zip(batch, lens, strict=True) if given else ():
            each.extend(rest[:more])
            rest = rest[more:]
            if not any(each is known for known in self.requests):
                self.requests.append(each)
        return given

    def free(self) -> object:
        row = self._drop()
        self.dice.shuffle(row)
        self.allocator.free(torch.tensor(row))
        return None

    def free_segment(self) -> object:
        self.allocator.free_segment(torch.tensor(self._drop()), start_pos=0)
        return None

    def free_segments(self) -> object:
        row, cut = torch.tensor(self._drop()), self.dice.randrange(1, 4) * self.size
        self.allocator.free_segments([(row[:cut], 0), (row[cut:], cut)])
        return None

    def group(self) -> object:
        if self.in_group:
            self.allocator.free_group_end()
        else:
            self.allocator.free_group_begin()
        self.in_group = not self.in_group
        return None

    def _drop(self) -> list[int]:
        return self.requests.pop(self.dice.randrange(len(self.requests)))


class _PairScript(Script):
    """The same on a pair, with windows that slide; a group holds one way of freeing only.

    sglang returns to the window what was freed as a segment before what was freed as a set.
    """

    def __init__(self, allocator: Any, dice: random.Random) -> None:
        super().__init__(allocator, dice)
        self.as_set = False

    def names(self) -> list[str]:
        grow = ["extend", "extend", "decode", "decode", "tail"] if self.size > 1 else ["alloc"] * 3
        sets = ["free", "evict_set", "free_after_eviction"]
        segments = ["free_segment", "free_segments", "evict_segment"]
        free = sets if self.as_set else segments
        return ["group", *grow, *(free if self.requests else [])]

    def state(self) -> object:
        mapping = self.allocator.full_to_swa_index_mapping.tolist()
        return self.allocator.full_available_size(), self.allocator.swa_available_size(), mapping

    def group(self) -> object:
        self.as_set = self.in_group or self.dice.random() < 0.5
        if self.in_group:
            self.as_set = self.dice.random() < 0.5
        return super().group()

    def decode(self) -> object:
        room = self.allocator.available_size() // self.size
        return super().decode() if room >= len(self.requests) else None

    def tail(self) -> object:
        new, pages = self.dice.randrange(1, 5 * self.size), self.dice.randrange(1, 3)
        start = max(0, (new - 1) // self.size + 1 - pages) * self.size
        zero, seq = torch.tensor([0]), torch.tensor([new])
        given = _list(
            self.allocator.alloc_extend_swa_tail(
                zero, zero, seq, seq, torch.tensor([-1]), new, new - start
            )
        )
        if given:
            # Before the tail nothing has a peer: such pages are freed on the full side.
            self.requests.append(given[start:])
            self._release_front(given[:start])
        return given

    def _release_front(self, row: list[int]) -> None:
        if row:
            self.allocator.free_full(torch.tensor(row))

    def _evict(self) -> tuple[list[int], list[int]]:
        """Some whole pages from a request's front, never its last."""
        row = self._drop()
        pages = self.dice.randrange((len(row) - 1) // self.size + 1)
        gone, rest = row[: pages * self.size], row[pages * self.size :]
        self.requests.append(rest)
        return gone, rest

    def evict_set(self) -> object:
        gone, _ = self._evict()
        self.dice.shuffle(gone)
        self.allocator.free_swa(torch.tensor(gone, dtype=torch.int64))
        self._release_front(gone)
        return None

    def evict_segment(self) -> object:
        gone, _ = self._evict()
        index = torch.tensor(gone, dtype=torch.int64)
        self.allocator.free_swa_segment(index, start_pos=0)
        self.allocator.free_full_segment(index, start_pos=0)
        return None

    def free_after_eviction(self) -> object:
        row = torch.tensor(self._drop())
        self.allocator.free_swa(row)
        self.allocator.free_full(row)
        return None


class _StateScript:
    """Slots of single requests, some of them taken ahead."""

    def __init__(self, allocator: Any, dice: random.Random) -> None:
        self.allocator, self.dice = allocator, dice
        self.owned: list[int] = []
        self.in_group = False

    def step(self) -> tuple[object, ...]:
        name = self.dice.choice(["alloc", "alloc", "free", "group"])
        return name, getattr(self, name)(), self.allocator.available_size()

    def alloc(self) -> object:
        given = _list(self.allocator.alloc(self.dice.randrange(1, 4)))
        self.owned += given or []
        return given

    def free(self) -> object:
        self.dice.shuffle(self.owned)
        cut = self.dice.randrange(len(self.owned) + 1)
        gone, self.owned = self.owned[:cut], self.owned[cut:]
        self.allocator.free(torch.tensor(gone, dtype=torch.int64))
        return None

    def group(self) -> object:
        if self.in_group:
            self.allocator.alloc_group_end()
        else:
            self.allocator.alloc_group_begin(self.dice.randrange(5))
        self.in_group = not self.in_group
        return None


def _list(given: torch.Tensor | None) -> list[int] | None:
    return None if given is None else given.tolist()
