"""Recurrent state that ranks split block by block: a transfer cuts it as torch does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import HybridPoolRequest, MHALeafRequest, StatePoolRequest
from kvproto.reference.build_any import build_reference
from kvproto.transfer import (
    NegotiationError,
    PoolManifest,
    Shard,
    decode_manifest,
    describe,
    descriptors,
    encode_manifest,
    negotiate,
)
from kvproto.transfer.session.coverage import check_coverage
from tests.transfer.pools import copy, fill

GROUPS = (16, 8, 8)
"""Blocks of a convolution's channels, each of which is split by itself."""

HEADS, WIDTH = 8, 3


def pool(ranks: int, axis: int = 0, *, width: int = WIDTH) -> Any:
    channels = sum(GROUPS) // ranks
    return build_reference(
        HybridPoolRequest(
            full=MHALeafRequest(
                size=16,
                page_size=4,
                dtype=torch.bfloat16,
                head_num=1,
                head_dim=8,
                layer_num=1,
                device="cpu",
            ),
            state=StatePoolRequest(
                size=4,
                mamba_layer_ids=(0, 2),
                conv_state_shape=((channels, width) if axis == 0 else (width, channels),),
                temporal_state_shape=(HEADS // ranks, 2, 5),
                conv_dtype=torch.bfloat16,
                ssm_dtype=torch.float32,
                conv_slice_axis=axis,
                conv_shard_groups=GROUPS,
                device="cpu",
            ),
            full_attention_layer_ids=(1,),
        )
    )


def told(each: Any, shard: Shard | None) -> PoolManifest:
    return decode_manifest(encode_manifest(describe(each, shard=shard)))


def conv_of(whole: torch.Tensor, rank: int, ranks: int, axis: int) -> torch.Tensor:
    """The channels of a rank: its share of every block."""
    blocks = torch.split(whole, list(GROUPS), dim=2 + axis)
    return torch.cat([block.chunk(ranks, dim=2 + axis)[rank] for block in blocks], dim=2 + axis)


def state(each: Any) -> tuple[torch.Tensor, torch.Tensor]:
    cache = each.mamba_pool.mamba_cache
    return cache.conv[0], cache.temporal


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_get_their_share_of_every_block(ranks: int, axis: int) -> None:
    whole = pool(1, axis)
    fill(whole, 1)
    for rank in range(ranks):
        part = pool(ranks, axis)
        plan = negotiate(told(whole, (0, 1)), told(part, (rank, ranks)))
        copy(descriptors(plan, {"state": ([3, 1], [2, 4])}))
        conv, temporal = state(part)
        expected = conv_of(state(whole)[0], rank, ranks, axis)
        assert torch.equal(conv[:, [2, 4]].view(torch.int16), expected[:, [3, 1]].view(torch.int16))
        heads = state(whole)[1].chunk(ranks, dim=2)[rank]
        assert torch.equal(
            temporal[:, [2, 4]].view(torch.int32), heads[:, [3, 1]].view(torch.int32)
        )
        assert not conv[:, [0, 1, 3]].any()


@pytest.mark.parametrize("axis", [0, 1])
def test_ranks_fill_one_that_has_all(axis: int) -> None:
    whole, parts = pool(1, axis), [pool(2, axis), pool(2, axis)]
    for rank, part in enumerate(parts):
        fill(part, rank)
        plan = negotiate(told(part, (rank, 2)), told(whole, (0, 1)))
        copy(descriptors(plan, {"state": ([1], [3])}))
    for rank, part in enumerate(parts):
        conv, temporal = state(part)
        got = conv_of(state(whole)[0], rank, 2, axis)
        assert torch.equal(got[:, 3].view(torch.int16), conv[:, 1].view(torch.int16))
        heads = state(whole)[1].chunk(2, dim=2)[rank]
        assert torch.equal(heads[:, 3].view(torch.int32), temporal[:, 1].view(torch.int32))


def test_ranks_of_two_sizes_share_what_both_have() -> None:
    half, quarter = pool(2), pool(4)
    fill(half, 1)
    plan = negotiate(told(half, (1, 2)), told(quarter, (3, 4)))
    copy(descriptors(plan, {"state": ([2], [2])}))
    halves = [block // 2 for block in GROUPS]
    both = [block.chunk(2, dim=2)[1] for block in torch.split(state(half)[0], halves, dim=2)]
    got = state(quarter)[0][:, 2]
    assert torch.equal(got.view(torch.int16), torch.cat(both, dim=2)[:, 2].view(torch.int16))


def test_a_receiver_needs_the_steps_of_every_rank() -> None:
    whole = told(pool(1), (0, 1))
    plans = [negotiate(whole, told(pool(2), (rank, 2)), direction="read") for rank in (0, 1)]
    check_coverage(plans)
    for plan in plans:
        with pytest.raises(
            ValueError, match=r"no peer sends state of layer 0, step (8|0) \(target"
        ):
            check_coverage([plan])


def test_alike_ranks_send_items_whole() -> None:
    plan = negotiate(told(pool(2), (1, 2)), told(pool(2), (1, 2)))
    assert [pair.pieces.local for pair in plan.pairs if pair.space == "state"] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("mine", "theirs", "field"),
    [
        ((0, 2), (1, 2), "split"),
        ((0, 2), None, "split"),
        ((0, 2), (2, 4), "split"),
    ],
)
def test_ranks_without_a_step_in_common_are_refused(
    mine: Shard, theirs: Shard | None, field: str
) -> None:
    other = pool(theirs[1] if theirs else 2)
    with pytest.raises(NegotiationError) as refused:
        negotiate(told(pool(2), mine), told(other, theirs))
    assert {each.field for each in refused.value.refusals} == {field}


def test_other_numbers_of_ranks_that_are_not_told_are_refused() -> None:
    with pytest.raises(NegotiationError, match="state: state dim: 96 here, 48 there"):
        negotiate(told(pool(1), None), told(pool(2), None))


def test_state_of_another_width_is_refused() -> None:
    with pytest.raises(NegotiationError, match="state: bytes of a step: 6 here, 10 there"):
        negotiate(told(pool(1), (0, 1)), told(pool(2, width=5), (0, 2)))


@pytest.mark.parametrize(
    ("shard", "why"),
    [
        ((2, 2), r"shard=\(2, 2\): a rank, counted from 0"),
        ((0, 4), r"4 ranks cannot each have 16 steps of blocks of \[16, 8, 8\]"),
    ],
)
def test_shards_that_cannot_be_are_refused(shard: Shard, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        describe(pool(2), shard=shard)
