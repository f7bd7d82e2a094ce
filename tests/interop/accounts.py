# pyright: basic, reportMissingImports=false
"""Random sequences of calls through sglang's accounts beside the plain ones, and through ours.

Window layers alone, ids over a smaller device, rows with state, rings: as in `allocators.py` both
sides play from the same seed and are compared after every step. Scripts keep to what sglang's
callers may do; what happens beyond is in `account_faults.py`.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from sglang.kernels.ops.speculative.dspark.dspark_attn_metadata import swa_ring_rows

from kvproto.kernels.ring_slots import ring_slots
from tests.interop.account_makers import (
    our_device,
    our_pure,
    our_ranks,
    our_rings,
    our_rows,
    real_device,
    real_pure,
    real_ranks,
    real_rings,
    real_rows,
    request,
)
from tests.interop.allocators import Script, compare

__all__ = ["comparisons"]


def comparisons() -> dict[str, object]:
    """Script -> what was played and the first step at which the sides differ, or None."""
    found: dict[str, object] = {}
    for need_sort in (False, True):
        note = ", need_sort" if need_sort else ""
        sides = [make(24, need_sort) for make in (real_pure, our_pure)]
        found[f"window layers alone{note}"] = compare(_PureScript, sides, 300)
        sides = [make(14, 4, need_sort) for make in (real_device, our_device)]
        found[f"device subset{note}"] = compare(_DeviceScript, sides, 300)
        sides = [make(need_sort) for make in (real_rings, our_rings)]
        found[f"beside rings{note}"] = compare(_RingScript, sides, 300)
    # What waits to be sorted in is sorted in class by class here, all at once there.
    found["pages of ranks"] = compare(_RankScript, [real_ranks(), our_ranks()], 300)
    for name, options in ROWS.items():
        sides = [make(**options) for make in (real_rows, our_rows)]
        found[f"rows with state{name}"] = compare(_RowScript, sides, 300)
    found["rings"] = _ring_rows()
    return found


ROWS: dict[str, dict[str, Any]] = {
    "": {},
    ", snapshots": {"extra": True},
    ", one snapshot": {"extra": True, "overlap": False},
    ", lazy snapshots": {"extra": True, "lazy": True},
}


class _PureScript(Script):
    """Requests whose windows slide; nobody names a slot again that was freed."""

    def names(self) -> list[str]:
        free = ["free", "free_segment", "free_segments", "evict_set", "evict_segment"]
        return ["alloc", "alloc", "group", *(free if self.requests else [])]

    def state(self) -> object:
        allocator = self.allocator
        owned = torch.tensor([slot for row in self.requests for slot in row], dtype=torch.int64)
        peers = allocator.translate_loc_from_full_to_swa(owned).tolist()
        sizes = (allocator.size, allocator.size_full, allocator.size_swa)
        return (
            allocator.available_size(),
            allocator.full_available_size(),
            allocator.swa_available_size(),
            sizes,
            peers,
        )

    def _evict(self) -> list[int]:
        row = self._drop()
        cut = self.dice.randrange(len(row))
        self.requests.append(row[cut:])
        return row[:cut]

    def evict_set(self) -> object:
        gone = self._evict()
        self.dice.shuffle(gone)
        index = torch.tensor(gone, dtype=torch.int64)
        self.allocator.free_swa(index)
        self.allocator.free_full(index)
        return gone

    def evict_segment(self) -> object:
        index = torch.tensor(self._evict(), dtype=torch.int64)
        self.allocator.free_swa_segment(index, start_pos=0)
        self.allocator.free_full_segment(index, start_pos=0)
        return index.tolist()


class _DeviceScript(Script):
    """Requests that are prefilled on the device or without it, decoded, and given a buffer."""

    def __init__(self, allocator: Any, dice: random.Random) -> None:
        super().__init__(allocator, dice)
        self.placed: list[bool] = []
        self.buffers: list[list[int]] = []

    def names(self) -> list[str]:
        more = ["decode", "buffer", "free_device", "release"] if self.requests else []
        return ["prefill", "prefill", "logical", *more, *(["free_buffer"] if self.buffers else [])]

    def state(self) -> object:
        table = self.allocator.full_to_hisparse_device_index_mapping.tolist()
        parts = self.allocator.logical_attn_allocator, self.allocator.hisparse_attn_allocator
        return self.allocator.available_size(), [part.available_size() for part in parts], table

    def prefill(self) -> object:
        """New requests, and one that goes on where it has a place."""
        old = next((at for at, placed in enumerate(self.placed) if placed), None)
        batch = [[]] if old is None or self.dice.random() < 0.5 else [self.requests[old], []]
        lens = [self.dice.randrange(1, 3 * self.size + 1) for _ in batch]
        return self._enter(batch, lens, self._extend(batch, lens), True)

    def logical(self) -> object:
        lens = [self.dice.randrange(1, 3 * self.size + 1)]
        prefix, seq = torch.tensor([0]), torch.tensor(lens)
        given = self.allocator.alloc_logical_only(
            prefix, prefix, seq, seq, torch.tensor([-1]), lens[0]
        )
        return self._enter([[]], lens, None if given is None else given.tolist(), False)

    def _enter(self, batch: Any, lens: Any, given: Any, placed: bool) -> object:
        told, taken = given, list(given or [])
        for row, more in zip(batch, lens, strict=True) if given else ():
            new, taken = taken[:more], taken[more:]
            if row:
                row.extend(new)
            else:
                self.requests.append(new)
                self.placed.append(placed)
        return told

    def decode(self) -> object:
        at = self.dice.randrange(len(self.requests))
        row = self.requests[at]
        seq = torch.tensor([len(row) + 1])
        given = self.allocator.alloc_decode(seq, seq.clone(), torch.tensor([row[-1]]))
        if given is None:
            return None
        row += given.tolist()
        self.placed[at] = False
        return given.tolist()

    def buffer(self) -> object:
        at = self.dice.randrange(len(self.requests))
        row, free = self.requests[at], self.allocator.hisparse_attn_allocator.available_size()
        need = min(self.dice.randrange(1, 4) * self.size, free)
        given = self.allocator.alloc_device_buffer(torch.tensor(row), need).tolist()
        self.placed[at] = False
        self.buffers += [given] if given else []
        return given

    def free_device(self) -> object:
        """All of a request: of a page in part sglang leaves the others where they were."""
        at = self.dice.randrange(len(self.requests))
        self.allocator.free_hisparse(torch.tensor(self.requests[at]))
        self.placed[at] = False
        return None

    def free_buffer(self) -> object:
        given = self.buffers.pop(self.dice.randrange(len(self.buffers)))
        self.allocator.free_hisparse_indices(torch.tensor([0, *given]))
        return None

    def release(self) -> object:
        at = self.dice.randrange(len(self.requests))
        row = self.requests.pop(at)
        self.placed.pop(at)
        self.dice.shuffle(row)
        self.allocator.free(torch.tensor(row))
        return None


class _RingScript(Script):
    """Prompts with tails, decoding, and rows that come and go."""

    def __init__(self, allocator: Any, dice: random.Random) -> None:
        super().__init__(allocator, dice)
        self.held: list[Any] = []

    def names(self) -> list[str]:
        return [*(n for n in super().names() if n != "alloc"), "tail", "row", "evict"]

    def state(self) -> object:
        allocator = self.allocator
        sizes = allocator.size_full, allocator.size_swa, allocator.swa_ring_cost_tokens
        window = allocator.swa_available_size()
        peers = allocator.translate_loc_from_full_to_swa(torch.tensor([-1, 0, 4, 9])).tolist()
        return allocator.available_size(), allocator.full_available_size(), window, sizes, peers

    def tail(self) -> object:
        new = self.dice.randrange(1, 5 * self.size)
        zero, seq = torch.tensor([0]), torch.tensor([new])
        length = self.dice.randrange(new + 1)
        given = self.allocator.alloc_extend_swa_tail(
            zero, zero, seq, seq, torch.tensor([-1]), new, length
        )
        if given is None:
            return None
        self.requests.append(given.tolist())
        return given.tolist()

    def evict(self) -> object:
        row = torch.tensor(self.requests[0] if self.requests else [], dtype=torch.int64)
        self.allocator.free_swa(row)
        self.allocator.free_swa_segment(row, start_pos=0)
        return None

    def row(self) -> object:
        if self.held and self.dice.random() < 0.5:
            self.allocator.rows.free(self.held.pop())
            return None
        one = request()
        given = self.allocator.rows.alloc([one])
        self.held += [] if given is None else [one]
        return given


class _RankScript(Script):
    """Chains of whole pages from any class on, and freed as sets: a group is one."""

    def names(self) -> list[str]:
        return ["alloc", "alloc", "alloc", *(["free"] if self.requests else [])]

    def state(self) -> object:
        return self.allocator.available_size(), self.allocator.class_free_page_counts()

    def alloc(self) -> object:
        start, pages = self.dice.randrange(-2, 5), self.dice.randrange(1, 6)
        given = self.allocator.alloc_cyclic(start, pages * self.size)
        self.requests += [] if given is None else [given.tolist()]
        return None if given is None else given.tolist()


class _RowScript:
    """Requests that get rows and state, lose them one after the other, and feed a prefix cache."""

    def __init__(self, pool: Any, dice: random.Random) -> None:
        self.pool, self.dice = pool, dice
        self.requests: list[Any] = []
        self.cached: list[int] = []

    def step(self) -> tuple[object, ...]:
        name = self.dice.choice(["alloc", "alloc", "again", "finish", "fork", "donate", "evict"])
        return name, getattr(self, name)(), self.state()

    def state(self) -> object:
        pool = self.pool
        buffers = [
            None if (b := r.kv.mamba_ping_pong_track_buffer) is None else b.tolist()
            for r in self.requests
        ]
        rows = torch.tensor([0, *(r.kv.req_pool_idx for r in self.requests)])
        indices = pool.get_mamba_indices(rows)
        return (
            pool.available_size(),
            pool.mamba_allocator.available_size(),
            indices.tolist(),
            str(indices.dtype),
            buffers,
            [
                (r.kv.mamba_next_track_idx, pool.get_mamba_ping_pong_keep_idx(r))
                for r in self.requests
            ]
            if pool.enable_mamba_extra_buffer
            else None,
            [pool.mamba_initial_tracking_slots, pool.mamba_ping_pong_track_buffer_size],
            [pool.get_mamba_ping_pong_other_idx(at) for at in (0, 1)],
        )

    def _need(self) -> int:
        return 1 + int(self.pool.mamba_initial_tracking_slots)

    def alloc(self) -> object:
        """As many as there is state for: sglang asserts where there is too little."""
        count = self.dice.randrange(1, 3)
        if self.pool.mamba_allocator.available_size() < count * self._need():
            return "no state"
        fresh = [request() for _ in range(count)]
        given = self.pool.alloc(fresh)
        self.requests += fresh if given else []
        return given

    def again(self) -> object:
        return self.pool.alloc(self.requests[:2]) if self.requests else None

    def fork(self) -> object:
        if self.pool.mamba_allocator.available_size() < self._need():
            return "no state"
        one, slot = request(), self.pool.mamba_allocator.alloc(1)
        one.kv.mamba_pool_idx = slot[0]
        given = self.pool.alloc([one])
        if given is None:
            self.pool.mamba_allocator.free(slot)
            return None
        self.requests.append(one)
        return given, slot.tolist()

    def finish(self) -> object:
        if not self.requests:
            return None
        one = self.requests.pop(self.dice.randrange(len(self.requests)))
        keep = None
        if self.pool.enable_mamba_extra_buffer and self.dice.random() < 0.5:
            keep = self.pool.get_mamba_ping_pong_keep_idx(one)
            self.cached.append(int(one.kv.mamba_ping_pong_track_buffer[keep]))
        self.pool.free_mamba_cache(one, keep)
        self.pool.free(one)
        return keep, one.kv.mamba_pool_idx, one.kv.mamba_ping_pong_track_buffer

    def donate(self) -> object:
        allocator = self.pool.mamba_allocator
        if not (self.pool.enable_mamba_extra_buffer and self.requests):
            return None
        if not allocator.available_size():
            return "no state"
        one = self.dice.choice(self.requests)
        given = self.pool.donate_mamba_ping_pong_slot(one, allocator.alloc(1)).tolist()
        self.cached += given
        return given

    def evict(self) -> object:
        if self.cached:
            self.pool.mamba_allocator.free(torch.tensor([self.cached.pop(0)]))
        return list(self.cached)


def _ring_rows() -> dict[str, object]:
    dice = random.Random(7)
    rows = torch.tensor([dice.randrange(9) for _ in range(64)])
    positions = torch.tensor([dice.randrange(999) for _ in range(64)])
    differ = [
        ring
        for ring in (1, 4, 6, 128)
        if not torch.equal(swa_ring_rows(rows, positions, ring), ring_slots(rows, positions, ring))
    ]
    return {"played": {"rows": 64 * 4}, "differs": differ or None}
