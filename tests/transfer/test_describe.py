"""A manifest has every byte of a pool, or says which it leaves out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from kvproto.protocols import CapabilityError, NoOpLeafRequest
from kvproto.reference import MHALeaf
from kvproto.reference.build_any import build_reference
from kvproto.transfer import PoolManifest, describe
from tests.transfer.pools import BUILDERS, storages


def spans(manifest: PoolManifest) -> list[tuple[int, int]]:
    """First and one past the last byte of every layer of every region, by address."""
    return sorted(
        (base, base + each.region.page_count * each.region.page_stride)
        for part in manifest.pools
        for each in part.regions
        for base in each.region.bases
    )


@pytest.mark.parametrize("name", BUILDERS)
def test_every_byte_is_described_or_left_out(name: str) -> None:
    pool = BUILDERS[name]()
    manifest, owned = describe(pool), storages(pool)
    described = spans(manifest)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(described))
    for first, last in described:
        assert any(at <= first and last <= at + nbytes for at, nbytes in owned.items())
    left = sum(each.nbytes for each in manifest.left_out)
    assert sum(last - first for first, last in described) + left == sum(owned.values())


def test_what_is_left_out_says_why() -> None:
    left = describe(BUILDERS["reference-mha-nvfp4-page16"]()).left_out
    assert len(left) == 2
    for each in left:
        assert str(each).startswith(f"{each.name} ({each.nbytes} bytes): ")
        assert len(each.reason.split()) > 3


def mha(pages: int = 3, *, layers: int = 2, start: int = 0) -> MHALeaf:
    return MHALeaf(4 * pages, 4, torch.bfloat16, 2, 8, layers, "cpu", start_layer=start)


def test_a_draft_pool_is_a_part_of_its_own() -> None:
    target, draft = mha(), mha(layers=1)
    both = describe(target, draft)
    assert [part.name for part in both.pools] == ["target", "draft"]
    assert both.pool("draft").layer_ids == (0,)
    assert both.nbytes == sum(storages(target).values()) + sum(storages(draft).values())
    with pytest.raises(KeyError, match="no pool 'draft', there are target"):
        describe(target).pool("draft")


def test_a_draft_has_pages_of_the_target_s_size() -> None:
    other = MHALeaf(16, 8, torch.bfloat16, 2, 8, 1, "cpu")
    with pytest.raises(ValueError, match=r"'target': 4, 'draft': 8. tokens: must be the same"):
        describe(mha(), other)


def test_a_manifest_begins_with_the_target() -> None:
    whole = describe(mha())
    for pools in ((), (replace(whole.pools[0], name="draft"),), whole.pools * 2):
        with pytest.raises(ValueError, match="the target's, then the draft's"):
            replace(whole, pools=pools)


@pytest.mark.parametrize(
    ("name", "spaces"),
    [
        ("reference-mha-bf16-page16-stage", {"full": 7}),
        ("reference-swa-page4-window-first", {"full": 7, "window": 4}),
        ("reference-hybrid-page16-tails", {"full": 5, "state": 4, "request": 4}),
        ("reference-rings-page4-uneven", {"full": 8, "request": 4}),
        ("reference-dsa-pooled-page16-tails-shared", {"full": 5, "request": 6}),
    ],
)
def test_regions_are_numbered_by_their_space(name: str, spaces: dict[Any, int]) -> None:
    manifest = describe(BUILDERS[name]())
    assert {space: manifest.capacity(space) for space in manifest.spaces} == spaces


def test_a_row_of_rings_is_several_pages() -> None:
    manifest = describe(BUILDERS["reference-rings-page4-uneven"]())
    rings = manifest.pool("target").in_space("request")
    assert [each.pages_per_item for each in rings] == [2, 2]
    assert rings[0].region.layer_ids == (3, 4)


def test_a_rank_says_which_heads_are_its() -> None:
    manifest = describe(mha(), heads=range(6, 8))
    assert {each.heads for each in manifest.pool("target").regions} == {(6, 8)}
    with pytest.raises(ValueError, match=r"heads=range\(0, 4\): key rows .* have 2 heads"):
        describe(mha(), heads=range(4))


def test_heads_are_told_by_space_where_window_layers_differ() -> None:
    pool = BUILDERS["reference-swa-page16-two-shapes"]()
    told = describe(pool, heads={"full": range(1, 2), "window": range(3, 6)})
    assert [each.heads for each in told.pools[0].regions] == [(1, 2), (1, 2), (3, 6), (3, 6)]


def test_rows_that_every_rank_has_have_no_heads() -> None:
    pool = BUILDERS["reference-sparse-bf16-page1"]()
    told = describe(pool, heads=range(2))
    assert [each.heads for each in told.pools[0].regions] == [(0, 2), (0, 2), None, None]


@pytest.mark.parametrize("pool", [object(), torch.zeros(3)])
def test_what_exports_no_pages_is_refused(pool: object) -> None:
    with pytest.raises(CapabilityError, match=r"describe\(\) of the target pool needs Transfer"):
        describe(pool)


def test_a_pool_without_rows_is_refused() -> None:
    request = NoOpLeafRequest(
        size=16,
        page_size=4,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=8,
        layer_num=1,
        device="cpu",
    )
    with pytest.raises(CapabilityError, match="get_contiguous_buf_infos: set to None"):
        describe(build_reference(request))


class Silent(MHALeaf):
    buffer_regions = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


def test_a_pool_that_hides_where_its_bytes_are_is_refused() -> None:
    pool = Silent(8, 4, torch.bfloat16, 2, 8, 1, "cpu")
    with pytest.raises(CapabilityError, match=r"describe\(\) needs DeclaresRegions, Silent is not"):
        describe(pool)


class Forgetful(MHALeaf):
    """A pool that owns more than it says."""

    def buffer_regions(self) -> Any:
        keys, values = super().buffer_regions()
        return keys, replace(values, page_count=values.page_count - 1)


def test_a_pool_that_hides_bytes_is_found_out() -> None:
    pool = Forgetful(8, 4, torch.bfloat16, 2, 8, 1, "cpu")
    assert describe(pool).nbytes < sum(storages(pool).values())
