"""Descriptors against the regions' own addresses, page by page; and the lists that are refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.protocols import BufferRegion, Field, row_major
from kvproto.transfer import (
    Descriptors,
    IndexSpace,
    ManifestRegion,
    PageLists,
    PoolManifest,
    PoolPart,
    describe,
    descriptors,
    negotiate,
)
from tests.transfer.naive import page_moves
from tests.transfer.pools import BUILDERS

Lists = dict[IndexSpace, tuple[list[int], list[int]]]


def joined(moves: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Moves that follow each other at both ends as one, by looking at one after the other."""
    found: list[tuple[int, int, int]] = []
    for source, target, length in moves:
        before = found[-1] if found else (-1, -1, 0)
        if (before[0] + before[2], before[1] + before[2]) == (source, target):
            found[-1] = (before[0], before[1], before[2] + length)
        else:
            found.append((source, target, length))
    return found


def rows(made: Descriptors) -> list[tuple[int, int, int]]:
    assert (made.local[:, 1] == made.remote[:, 1]).all()
    return [
        (source, target, length)
        for (source, length), (target, _) in zip(
            made.local.tolist(), made.remote.tolist(), strict=True
        )
    ]


def by_layer(mine: PoolManifest, theirs: PoolManifest, lists: Lists) -> list[tuple[int, int, int]]:
    """Coalesced within a layer of a region, never from one to the next."""
    found: list[tuple[int, int, int]] = []
    for here, there in zip(mine.pools[0].regions, theirs.pools[0].regions, strict=True):
        for place in range(len(here.region.bases)):
            ends = [_of_layer(end, each, place) for end, each in ((mine, here), (theirs, there))]
            found += joined(list(page_moves(ends[0], ends[1], lists)))
    return found


def _of_layer(whole: PoolManifest, each: ManifestRegion, place: int) -> PoolManifest:
    region = each.region
    if not region.is_envelope:
        ids, bases = region.layer_ids[place : place + 1], region.bases[place : place + 1]
        region = replace(region, layer_ids=ids, bases=bases)
    part = replace(whole.pools[0], regions=(replace(each, region=region),))
    return replace(whole, pools=(part,))


@pytest.mark.parametrize(
    "name",
    [
        "reference-mha-bf16-page1",
        "reference-page-envelope-bf16-page16-stage",
        "reference-swa-page1",
        "reference-hybrid-page16-tails",
        "reference-rings-page4-uneven",
        "npu-mla-split-bf16-page1",
    ],
)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_they_are_the_addresses_of_the_regions(name: str, data: st.DataObject) -> None:
    mine, theirs = DESCRIBED.setdefault(name, _described(name))[:2]
    lists: Lists = {}
    for space in mine.spaces:
        numbers = range(1, mine.capacity(space))
        count = data.draw(st.integers(0, len(numbers)))
        sources = data.draw(st.lists(st.sampled_from(numbers), min_size=count, max_size=count))
        targets = data.draw(st.permutations(numbers))[:count]
        lists[space] = (sources, targets)
    made = descriptors(negotiate(mine, theirs), lists)
    assert rows(made) == by_layer(mine, theirs, lists)


def _described(name: str) -> tuple[PoolManifest, PoolManifest, list[Any]]:
    kept = [BUILDERS[name](), BUILDERS[name]()]
    return describe(kept[0]), describe(kept[1]), kept


DESCRIBED: dict[str, tuple[PoolManifest, PoolManifest, list[Any]]] = {}
"""Manifests, and the pools that their addresses are of."""


def manifest(pages: int, *, base: int = 1 << 12, page_bytes: int = 64) -> PoolManifest:
    """One region of two layers at addresses of no pool."""
    axes = row_major("uint8", ("token", 1), ("dim", page_bytes))
    region = BufferRegion(
        layer_ids=(4, 5),
        bases=(base, base + pages * page_bytes + 4096),
        page_count=pages,
        page_size=1,
        bytes_per_page=page_bytes,
        fields=(Field("latent", "uint8", axes),),
    )
    part = PoolPart(
        name="target",
        page_size=1,
        traits=None,
        regions=(ManifestRegion(space="full", region=region),),
    )
    return PoolManifest(owner="", pools=(part,))


SMALL = negotiate(manifest(100), manifest(200, base=1 << 20))


def made(local: Any, remote: Any, **asked: Any) -> Descriptors:
    return descriptors(SMALL, {"full": (local, remote)}, **asked)


def test_runs_at_both_ends_are_one() -> None:
    run = made([5, 6, 7, 9], [50, 51, 52, 54], layer_id=4)
    assert rows(run) == [
        (4096 + 5 * 64, (1 << 20) + 50 * 64, 3 * 64),
        (4096 + 9 * 64, (1 << 20) + 54 * 64, 64),
    ]
    assert len(made([5, 6, 7], [50, 52, 51], layer_id=4).local) == 3
    assert len(made([7, 6, 5], [52, 51, 50], layer_id=4).local) == 3


def test_layers_next_to_each_other_stay_apart() -> None:
    next_door = manifest(3)
    regions = next_door.pools[0].regions
    close = replace(regions[0].region, bases=(4096, 4096 + 3 * 64))
    part = replace(next_door.pools[0], regions=(replace(regions[0], region=close),))
    plan = negotiate(replace(next_door, pools=(part,)), manifest(3, base=1 << 20))
    assert len(descriptors(plan, {"full": ([1, 2], [1, 2])}).local) == 2


def test_shape_and_type() -> None:
    for each in (*made([1, 5], [9, 1]), *made([], []), *descriptors(SMALL, {})):
        assert each.dtype == np.int64
        assert each.shape[1] == 2
        assert all(column.flags.c_contiguous for column in each.T)
    assert made([], []).local.shape == (0, 2)
    assert len(made([1, 5], [9, 1]).local) == 4


@pytest.mark.parametrize("kind", ["int32", "uint64", "int8"])
def test_any_integers_will_do(kind: str) -> None:
    lists = [np.array([1, 9], kind), np.array([3, 7], kind)]
    assert rows(made(*lists)) == rows(made([1, 9], [3, 7]))


def test_addresses_and_lengths_of_large_pools() -> None:
    """16 GiB a layer, above 2**46, with runs of more than 4 GiB: nothing wraps."""
    base, page = (1 << 46) + 4096, 1 << 20
    local, remote = manifest(16385, base=base, page_bytes=page), manifest(16385, page_bytes=page)
    plan = negotiate(local, remote)
    pages = list(range(1, 5001))
    got = rows(descriptors(plan, {"full": (pages, [p + 9000 for p in pages])}))
    second = 16385 * page + 4096
    assert got == [
        (base + page, 4096 + 9001 * page, 5000 * page),
        (base + second + page, 4096 + second + 9001 * page, 5000 * page),
    ]
    apart = np.arange(16384, 0, -1)
    far = descriptors(plan, {"full": (apart, apart)}, layer_id=5).local
    assert far[0].tolist() == [base + second + 16384 * page, page]
    assert (np.diff(far[:, 0]) == -page).all()


@pytest.mark.parametrize(
    ("lists", "error", "told"),
    [
        ({"full": ([1, 2], [3])}, ValueError, "full: 2 local pages for 1 remote ones"),
        ({"full": ([1, 2], [3, 3])}, ValueError, "full: page 3 is a destination twice"),
        (
            {"full": ([0], [3])},
            ValueError,
            "full: local page 0 is reserved; ask with_reserved=True",
        ),
        (
            {"full": ([3], [0])},
            ValueError,
            "full: remote page 0 is reserved; ask with_reserved=Tru",
        ),
        ({"full": ([100], [3])}, IndexError, "full: local page 100 is outside 0..99"),
        ({"full": ([3], [200])}, IndexError, "full: remote page 200 is outside 0..199"),
        ({"full": ([-1], [3])}, IndexError, "full: local page -1 is outside 0..99"),
        ({"full": ([1.0], [3])}, ValueError, "full: local pages are float64 (1,), must be one row"),
        ({"full": ([[1]], [[3]])}, ValueError, "full: local pages are int64 (1, 1), must be one r"),
        (
            {"full": ([True], [3])},
            ValueError,
            "full: local pages are bool (1,), must be one row of",
        ),
        ({"window": ([1], [3])}, ValueError, "pages of space 'window': the plan has full"),
    ],
)
def test_lists_that_are_refused(lists: PageLists, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=re.escape(told)):
        descriptors(SMALL, lists)


def test_a_source_may_go_to_two_destinations() -> None:
    assert len(made([7, 7], [1, 9], layer_id=4).local) == 2
    reading = negotiate(manifest(100), manifest(200), direction="read")
    assert len(descriptors(reading, {"full": ([1, 9], [7, 7])}, layer_id=4).local) == 2
    with pytest.raises(ValueError, match="page 7 is a destination twice"):
        descriptors(reading, {"full": ([7, 7], [1, 9])})


def test_pages_of_one_pool_may_not_overlap() -> None:
    """An engine copies in any order, so that a page that is both would be either."""
    alone = manifest(100)
    plan = negotiate(alone, alone)
    assert len(descriptors(plan, {"full": ([1, 2], [4, 3])}, layer_id=4).local) == 2
    with pytest.raises(ValueError, match="full: page 2 is a source and a destination"):
        descriptors(plan, {"full": ([1, 2], [2, 3])})


def test_one_pool_is_known_under_two_owners_and_not_taken_for_that_of_another_process() -> None:
    pool = BUILDERS["reference-mla-bf16-page1"]()
    mine, again = (describe(pool, owner=owner) for owner in ("a", "b"))
    pages: PageLists = {"full": ([1, 2], [2, 3])}
    with pytest.raises(ValueError, match="full: page 2 is a source and a destination"):
        descriptors(negotiate(mine, again), pages)
    elsewhere = replace(again, process="another")  # where the same addresses are other bytes
    assert len(descriptors(negotiate(mine, elsewhere), pages).local)


def test_the_reserved_page_travels_where_asked() -> None:
    assert rows(made([0], [0], layer_id=4, with_reserved=True)) == [(4096, 1 << 20, 64)]


def test_numbers_past_64_bits_are_no_pages() -> None:
    with pytest.raises((ValueError, IndexError)):
        made([1 << 64], [1])
    with pytest.raises(IndexError, match=r"outside 0\.\.99"):
        made(np.array([(1 << 64) - 3], np.uint64), [1])
