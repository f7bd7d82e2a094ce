"""Two spaces lent in one launch: the same slots and peers as lent one after the other."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import Tensor

from kvproto.reference import slot_allocator
from kvproto.reference.device_pair import DevicePair
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.swa_allocator import SWAPairAllocator
from kvproto.reference.token_allocator import TokenAllocator


def pair(page_size: int) -> SWAPairAllocator:
    sides = (
        PageAllocator(size * page_size, page_size, torch.int64, "cpu", None, False)
        if page_size > 1
        else TokenAllocator(size, torch.int64, "cpu", None, False)
        for size in (60, 40)
    )
    full, window = sides
    return SWAPairAllocator(full_attn_allocator=full, swa_attn_allocator=window, kvcache=None)


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_a_pair_on_a_device_lends_what_a_pair_in_host_memory_does(
    page_size: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = pair(page_size)
    request.getfixturevalue("served_on_cpu")
    monkeypatch.setattr(slot_allocator, "has_numpy", False)
    device = pair(page_size)
    assert isinstance(device._at_once, DevicePair)
    assert host._at_once is None
    found, expected = played(device), played(host)
    assert found == expected
    assert torch.equal(device.full_to_swa_index_mapping, host.full_to_swa_index_mapping)
    assert sum(bool(slots) for slots, _, _ in expected) > 15


Step = tuple[list[int] | None, int, int]


def played(allocator: SWAPairAllocator) -> list[Step]:
    """What it lends to requests that come, grow and lose windows, and what it has left."""
    dice, page = Random(allocator.page_size), allocator.page_size
    requests: list[Tensor] = []
    found: list[Step] = []
    for _ in range(60):
        prefixes, more = [len(each) for each in requests], [1] * len(requests)
        match dice.choice(("alloc", "extend", "decode", "decode", "evict", "free")):
            case "alloc":
                got = allocator.alloc(dice.randrange(4) * page)
                requests += [] if got is None else [got]
            case "extend":
                requests.append(torch.empty(0, dtype=torch.int64))
                prefixes, more = [*prefixes, 0], [dice.randrange(2 * page + 2) for _ in prefixes]
                more.append(dice.randrange(page + 3))
                got = grown(allocator, requests, prefixes, more)
            case "decode":
                got = grown(allocator, requests, prefixes, more, decode=True)
            case "evict":
                got = None
                for each in requests[::2]:
                    allocator.free_swa_segment(each[: len(each) // page * page], start_pos=0)
            case _:
                got = None
                if requests:
                    allocator.free_segment(requests.pop(0), start_pos=0)
        left = allocator.full_available_size(), allocator.swa_available_size()
        found.append((None if got is None else got.tolist(), *left))
    return found


def grown(
    allocator: SWAPairAllocator,
    requests: list[Tensor],
    prefixes: list[int],
    more: list[int],
    *,
    decode: bool = False,
) -> Tensor | None:
    """Give requests what is lent to them, if anything is."""
    prefix = torch.tensor(prefixes, dtype=torch.int64)
    seq = prefix + torch.tensor(more, dtype=torch.int64)
    last = torch.tensor([int(each[-1]) if len(each) else -1 for each in requests]).to(torch.int64)
    if decode:
        got = allocator.alloc_decode(seq, seq, last)
    else:
        got = allocator.alloc_extend(prefix, prefix, seq, seq, last, sum(more))
    if got is not None:
        for i, part in enumerate(got.split(more)):
            requests[i] = torch.cat((requests[i], part))
    return got
