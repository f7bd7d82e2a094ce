"""Ranks that split the heads otherwise: each sends the heads that both have, and no other byte."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from kvproto.protocols import MHALeafRequest
from kvproto.reference.build_any import build_reference
from kvproto.transfer import NegotiationError, PageLists, describe, descriptors, negotiate
from tests.transfer.moves import by_byte, by_byte_of
from tests.transfer.naive import element_moves
from tests.transfer.pools import BUILDERS, copy, fill


def pool(layout: str, heads: int, **other: Any) -> Any:
    wanted: dict[str, Any] = {
        "dtype": torch.bfloat16,
        "head_dim": 16,
        "v_head_dim": 8,
        "page_size": 8,
    } | other
    made = build_reference(
        MHALeafRequest(
            size=5 * wanted["page_size"],
            head_num=heads,
            layer_num=2,
            start_layer=3,
            layout=cast("Any", layout),
            device="cpu",
            **wanted,
        )
    )
    KEPT.append(made)
    return made


KEPT: list[Any] = []
"""A pool built where one was freed would have its addresses: manifests are of pools that live."""


LAYOUTS = ("nhd", "paged_nhd", "hnd", "vectorized_5d", "page_envelope")
SPLITS = [
    (range(2), range(4)),
    (range(2, 4), range(4)),
    (range(4), range(2, 4)),
    (range(1, 4), range(2, 6)),
    (range(3, 4), range(4)),
]
"""Local and remote heads: a smaller rank at either end, half an overlap, a single head."""


@pytest.mark.parametrize("heads", SPLITS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_common_heads_travel(layout: str, heads: tuple[range, range]) -> None:
    ends = [describe(pool(layout, len(each)), heads=each) for each in heads]
    plan = negotiate(*ends)
    common = sorted(set(heads[0]) & set(heads[1]))
    places = [(heads[0].index(head), heads[1].index(head)) for head in common]
    tokens = [(16 + t, 8 + t) for t in range(8)] + [(8 + t, 32 + t) for t in range(8)]
    expected = [
        move
        for here, there in zip(*(end.pool("target").regions for end in ends), strict=True)
        for layer_id in (3, 4)
        for move in element_moves(here.region, there.region, layer_id, tokens, places)
    ]
    got = by_byte(descriptors(plan, {"full": ([2, 1], [1, 4])}))
    assert got == by_byte_of(expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_layer_at_a_time_is_all_layers(layout: str) -> None:
    plan = negotiate(
        describe(pool(layout, 2), heads=range(2)), describe(pool(layout, 4), heads=range(4))
    )
    pages: PageLists = {"full": ([2, 1], [1, 4])}
    each = [by_byte(descriptors(plan, pages, layer_id=i)) for i in (3, 4)]
    assert each[0] | each[1] == by_byte(descriptors(plan, pages))
    assert not each[0].keys() & each[1].keys()


def test_two_ranks_fill_one_in_tokens() -> None:
    """Through the doors of the pools: what was written on two ranks is read on one."""
    ranks, whole = [pool("hnd", 2) for _ in range(2)], pool("hnd", 4)
    fill(whole, 1)
    for rank, sender in enumerate(ranks):
        fill(sender, 2 + rank)
        heads = range(2 * rank, 2 * rank + 2)
        plan = negotiate(describe(sender, heads=heads), describe(whole, heads=range(4)))
        copy(descriptors(plan, {"full": ([3, 1], [2, 4])}))
    for layer_id in (3, 4):
        for read in ("get_key_buffer", "get_value_buffer"):
            parts = [getattr(each, read)(layer_id).view(torch.uint8) for each in ranks]
            got = getattr(whole, read)(layer_id).view(torch.uint8)
            # `hnd` is read as [pages, heads, page, dim].
            assert torch.equal(got[2], torch.cat([part[3] for part in parts]))
            assert torch.equal(got[4], torch.cat([part[1] for part in parts]))


@pytest.mark.parametrize("scheme", ["mxfp8", "nvfp4"])
def test_block_scales_go_with_their_heads(scheme: str) -> None:
    ends = [
        describe(
            pool("nhd", n, head_dim=64, v_head_dim=64, quant_scheme=scheme, dtype=dtype), heads=h
        )
        for n, h, dtype in ((2, range(2, 4), _DTYPES[scheme]), (4, range(4), _DTYPES[scheme]))
    ]
    plan = negotiate(*ends)
    expected = [
        move
        for here, there in zip(*(end.pool("target").regions for end in ends), strict=True)
        for move in element_moves(
            here.region, there.region, 3, [(8 + t, 16 + t) for t in range(8)], [(0, 2), (1, 3)]
        )
    ]
    assert len(ends[0].pool("target").regions) == 4
    got = by_byte(descriptors(plan, {"full": ([1], [2])}, layer_id=3))
    assert got == by_byte_of(expected)


_DTYPES = {"mxfp8": torch.float8_e4m3fn, "nvfp4": torch.float4_e2m1fn_x2}


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        (range(2), range(2, 6), r"heads: 0\.\.1 of the model here, 2\.\.5 of the model there"),
        (range(2), None, r"heads: 0\.\.1 of the model here, 4, which ones is not told there"),
        (None, None, "heads: 2, which ones is not told here, 4, which ones is not told there"),
    ],
)
def test_heads_that_nobody_has_in_common_are_refused(
    mine: range | None, theirs: range | None, told: str
) -> None:
    local, remote = describe(pool("nhd", 2), heads=mine), describe(pool("nhd", 4), heads=theirs)
    with pytest.raises(NegotiationError, match=told) as refused:
        negotiate(local, remote)
    assert {each.field for each in refused.value.refusals} == {"heads"}


def test_alike_ranks_need_not_tell_their_heads() -> None:
    plan = negotiate(describe(pool("nhd", 2)), describe(pool("nhd", 2)))
    assert {pair.pieces.nbytes for pair in plan.pairs} == {(512,), (256,)}


def test_latent_rows_are_on_every_rank() -> None:
    build = BUILDERS["reference-mla-bf16-page64-stage"]
    plan = negotiate(describe(build(), heads=range(8)), describe(build(), heads=range(8, 16)))
    assert [pair.pieces.total for pair in plan.pairs] == [3072]
