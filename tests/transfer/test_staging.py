"""Pages of one layout that become pages of another, byte for byte where the regions say."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from kvproto.protocols import MHALeafRequest
from kvproto.reference.build_any import build_reference
from kvproto.transfer import (
    NegotiationError,
    PageLists,
    PoolManifest,
    convert_staged,
    describe,
    descriptors,
    negotiate,
    staging_bytes,
)
from tests.transfer.moves import by_byte
from tests.transfer.naive import element_moves
from tests.transfer.pools import copy, fill, storages


def pool(
    layout: Any, dtype: torch.dtype = torch.bfloat16, *, heads: int = 2, page: int = 16
) -> Any:
    return build_reference(
        MHALeafRequest(
            size=5 * page,
            page_size=page,
            dtype=dtype,
            quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
            head_num=heads,
            head_dim=32,
            v_head_dim=16,
            layer_num=2,
            start_layer=3,
            layout=layout,
            device="cpu",
        )
    )


def told(each: Any) -> PoolManifest:
    return describe(each, conversion="staging")


def buffers(each: Any) -> list[torch.Tensor]:
    return [tensor for layer_id in (3, 4) for tensor in each.get_kv_buffer(layer_id)]


def held(each: Any) -> dict[int, bytes]:
    return {at: ctypes.string_at(at, nbytes) for at, nbytes in storages(each).items()}


def expected(
    sender: Any, receiver: Any, moved: Sequence[tuple[int, int]], page: int = 16
) -> dict[int, bytes]:
    """What the receiver holds after each element of these pages was copied by itself."""
    after = {at: bytearray(content) for at, content in held(receiver).items()}
    tokens = [(a * page + t, b * page + t) for a, b in moved for t in range(page)]
    ends = [[r.region for r in told(each).pool("target").regions] for each in (sender, receiver)]
    for here, there in zip(*ends, strict=True):
        for layer_id in (3, 4):
            for source, target, length in element_moves(here, there, layer_id, tokens):
                at = max(start for start in after if start <= target)
                after[at][target - at : target - at + length] = ctypes.string_at(source, length)
    return {at: bytes(content) for at, content in after.items()}


LAYOUTS = ("nhd", "hnd", "vectorized_5d")


@pytest.mark.parametrize("layouts", list(permutations(LAYOUTS, 2)), ids="-".join)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_pages_arrive_in_the_receivers_layout(layouts: tuple[str, str], dtype: torch.dtype) -> None:
    sender, receiver = pool(layouts[0], dtype), pool(layouts[1], dtype)
    fill(sender, 1)
    fill(receiver, 2)
    after = expected(sender, receiver, [(2, 1), (4, 5), (1, 2)])
    plan = negotiate(told(sender), told(receiver))
    pages: PageLists = {"full": ([2, 4, 1], [1, 5, 2])}
    staging = torch.zeros(staging_bytes(plan, pages), dtype=torch.uint8)
    copy(descriptors(plan, pages, staging=staging.data_ptr()))
    convert_staged(plan, pages, staging, buffers(receiver))
    assert held(receiver) == after


def test_the_local_side_converts_what_it_reads() -> None:
    sender, receiver = pool("hnd"), pool("nhd")
    fill(sender, 1)
    after = expected(sender, receiver, [(3, 2), (1, 4)])
    plan = negotiate(told(receiver), told(sender), direction="read")
    pages: PageLists = {"full": ([2, 4], [3, 1])}
    staging = torch.zeros(staging_bytes(plan, pages), dtype=torch.uint8)
    moved = descriptors(plan, pages, staging=staging.data_ptr())
    copy(type(moved)(moved.remote, moved.local))
    convert_staged(plan, pages, staging, buffers(receiver))
    assert held(receiver) == after


def test_one_layer_at_a_time_goes_to_the_same_staging_memory() -> None:
    plan = negotiate(told(KEPT[0]), told(KEPT[1]))
    pages: PageLists = {"full": ([2, 4], [1, 3])}
    every = by_byte(descriptors(plan, pages, staging=1 << 20))
    parts = [by_byte(descriptors(plan, pages, staging=1 << 20, layer_id=i)) for i in (3, 4)]
    assert parts[0] | parts[1] == every
    assert sorted(every) == list(range(1 << 20, (1 << 20) + staging_bytes(plan, pages)))


KEPT = [pool("nhd"), pool("hnd")]


def test_pages_of_a_side_are_cut_before_they_are_converted() -> None:
    """Pages of 16 in `nhd` for pages of 8 in `hnd`: two of these for one of those."""
    sender, receiver = pool("nhd"), pool("hnd", page=8)
    fill(sender, 1)
    after = expected(sender, receiver, [(5, 4), (4, 2)], page=8)
    plan = negotiate(told(sender), told(receiver))
    pages: PageLists = {"full": ([5, 4], [4, 2])}
    staging = torch.zeros(staging_bytes(plan, pages), dtype=torch.uint8)
    copy(descriptors(plan, pages, staging=staging.data_ptr()))
    convert_staged(plan, pages, staging, buffers(receiver))
    assert held(receiver) == after


@pytest.mark.parametrize("layouts", [("nhd", "paged_nhd"), ("nhd", "nhd")], ids="-".join)
def test_alike_pages_are_not_staged(layouts: tuple[str, str]) -> None:
    plan = negotiate(told(pool(layouts[0])), told(pool(layouts[1])))
    assert staging_bytes(plan, {"full": ([1, 2], [3, 4])}) == 0
    assert not any(pair.is_converted for pair in plan.pairs)


def test_one_head_is_the_same_in_both_orders() -> None:
    plan = negotiate(told(pool("nhd", heads=1)), told(pool("hnd", heads=1)))
    assert not any(pair.is_converted for pair in plan.pairs)


@pytest.mark.parametrize("says", ["here", "there", "nobody"])
def test_both_sides_have_to_convert(says: str) -> None:
    local = describe(KEPT[0], conversion="staging" if says == "here" else "none")
    remote = describe(KEPT[1], conversion="staging" if says == "there" else "none")
    with pytest.raises(NegotiationError) as refused:
        negotiate(local, remote)
    assert [each.field for each in refused.value.refusals] == ["layout", "layout"]
    assert "[token 16, head 2, dim 32] here, [head 2, token 16, dim 32] there" in str(refused.value)


def test_rows_of_another_width_are_not_converted() -> None:
    other = pool("hnd", heads=4)
    with pytest.raises(NegotiationError, match="heads: 2, which ones is not told here, 4, which"):
        negotiate(told(KEPT[0]), told(other))
    ends = [
        describe(each, heads=h, conversion="staging")
        for each, h in ((KEPT[0], range(2)), (other, range(4)))
    ]
    with pytest.raises(NegotiationError, match="layout: "):
        negotiate(*ends)


def test_what_stands_in_the_way_is_told_before_a_byte_is_written() -> None:
    plan = negotiate(told(KEPT[0]), told(KEPT[1]))
    pages: PageLists = {"full": ([2], [1])}
    with pytest.raises(ValueError, match="pages of key, value are converted on arrival: give sta"):
        descriptors(plan, pages)
    before = held(KEPT[1])
    small = torch.zeros(staging_bytes(plan, pages) - 1, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"staging is torch.uint8 \(6143,\), must be 6144 dense"):
        convert_staged(plan, pages, small, buffers(KEPT[1]))
    staging = torch.from_numpy(np.ones(staging_bytes(plan, pages), np.uint8))
    with pytest.raises(ValueError, match="no tensor of memory= has the 6144 bytes at 0x"):
        convert_staged(plan, pages, staging, buffers(KEPT[1])[:-1])
    assert held(KEPT[1]) == before
