"""Stages of a pipeline: layers go by their global id, and who has one alone is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.protocols import MHALeafRequest
from kvproto.reference.build_any import build_reference
from kvproto.transfer import NegotiationError, PoolManifest, describe, descriptors, negotiate
from tests.transfer.moves import by_byte, by_byte_of
from tests.transfer.naive import element_moves
from tests.transfer.pools import BUILDERS


def stage(layers: range, layout: Any = "nhd") -> PoolManifest:
    pool = build_reference(
        MHALeafRequest(
            size=12,
            page_size=4,
            dtype=torch.bfloat16,
            head_num=2,
            head_dim=8,
            layer_num=len(layers),
            start_layer=layers.start,
            layout=layout,
            device="cpu",
        )
    )
    KEPT.append(pool)
    return describe(pool)


KEPT: list[object] = []
"""Pools whose addresses a test compares."""


@pytest.mark.parametrize("layout", ["nhd", "hnd", "page_envelope"])
@pytest.mark.parametrize(
    ("mine", "theirs", "common"),
    [
        (range(2), range(4), (0, 1)),
        (range(2, 4), range(4), (2, 3)),
        (range(4), range(3, 6), (3,)),
        (range(1, 3), range(2, 4), (2,)),
    ],
)
def test_layers_that_both_have_travel(
    layout: str, mine: range, theirs: range, common: tuple[int, ...]
) -> None:
    ends = stage(mine, layout), stage(theirs, layout)
    plan = negotiate(*ends)
    assert plan.layer_ids() == common
    assert plan.local_only["target"] == tuple(i for i in mine if i not in theirs)
    assert plan.remote_only["target"] == tuple(i for i in theirs if i not in mine)
    tokens = [(8 + t, 4 + t) for t in range(4)]
    expected = by_byte_of(
        move
        for here, there in zip(*(end.pool("target").regions for end in ends), strict=True)
        for layer_id in common
        for move in element_moves(here.region, there.region, layer_id, tokens)
    )
    assert by_byte(descriptors(plan, {"full": ([2], [1])})) == expected


def test_stages_without_a_layer_in_common_are_refused() -> None:
    with pytest.raises(NegotiationError) as refused:
        negotiate(stage(range(2)), stage(range(2, 4)))
    assert str(refused.value) == "target: layer_ids: layers [0, 1] here, layers [2, 3] there"


def test_a_layer_that_has_index_keys_on_one_side_only_is_refused() -> None:
    whole = describe(BUILDERS["reference-sparse-bf16-page1"]())
    part = whole.pool("target")
    keys = part.regions[2]
    fewer = replace(keys.region, layer_ids=(3,), bases=keys.region.bases[1:])
    regions = (*part.regions[:2], replace(keys, region=fewer), part.regions[3])
    other = replace(whole, pools=(replace(part, regions=regions),))
    with pytest.raises(NegotiationError) as refused:
        negotiate(whole, other)
    told = "target full index_key: layer_ids: layers [2, 3] here, layers [3] there"
    assert str(refused.value) == told


def test_a_draft_of_the_same_layer_ids_is_a_pool_of_its_own() -> None:
    local = describe(two_layers(), two_layers())
    remote = describe(two_layers(), two_layers())
    plan = negotiate(local, remote)
    every = descriptors(plan, {"full": ([1], [2])})
    target = descriptors(plan, {"full": ([1], [2])}, pool="target")
    draft = descriptors(plan, {"full": ([1], [2])}, pool="draft")
    assert len(every.local) == 8
    assert [*target.local.tolist(), *draft.local.tolist()] == every.local.tolist()
    first = descriptors(plan, {"full": ([1], [2])}, layer_id=0)
    assert first.local.tolist() == target.local[::2].tolist()
    assert len(descriptors(plan, {"full": ([1], [2])}, layer_id=1, pool="draft").local) == 2


def two_layers() -> Any:
    return BUILDERS["reference-mha-bf16-page1"]()


def test_a_draft_on_one_side_only_is_refused() -> None:
    with pytest.raises(NegotiationError, match="manifest: pools: target and draft here, target th"):
        negotiate(describe(two_layers(), two_layers()), describe(two_layers()))


def test_pages_of_all_layers_and_of_one_are_two_layouts() -> None:
    with pytest.raises(NegotiationError) as refused:
        negotiate(stage(range(2), "page_envelope"), stage(range(2), "nhd"))
    assert {each.field for each in refused.value.refusals} == {"layout"}
    assert "target full key/value: layout: layers [0, 1] here, none there" in str(refused.value)


def test_a_space_without_a_layer_in_common_is_none_of_the_plan() -> None:
    """Two stages of a hybrid share an attention layer, and no layer of state."""
    whole = describe(BUILDERS["reference-hybrid-page1"]())
    part = whole.pool("target")

    def only(layer_id: int) -> PoolManifest:
        state = [
            replace(r, region=replace(r.region, layer_ids=(layer_id,), bases=r.region.bases[:1]))
            for r in part.in_space("state")
        ]
        regions = (*part.in_space("full"), *state)
        return replace(whole, owner=str(layer_id), pools=(replace(part, regions=regions),))

    plan = negotiate(only(0), only(2))
    assert list(plan.spaces) == ["full"]
    assert plan.layer_ids() == (1, 3)
    with pytest.raises(ValueError, match="pages of space 'state': the plan has full"):
        descriptors(plan, {"state": ([1], [2])})


def test_a_layer_that_does_not_travel_is_no_layer_to_ask_for() -> None:
    plan = negotiate(stage(range(2)), stage(range(1, 3)))
    with pytest.raises(ValueError, match="layer_id 0 of the target pool does not travel"):
        descriptors(plan, {"full": ([1], [1])}, layer_id=0)
