"""Pages of one side that are several of the other's: counted in the smaller, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    BufferRegion,
    DSALeafRequest,
    Field,
    MHALeafRequest,
    MLALeafRequest,
    row_major,
)
from kvproto.reference.build_any import build_reference
from kvproto.transfer import (
    ManifestRegion,
    NegotiationError,
    PoolManifest,
    PoolPart,
    TransferPlan,
    describe,
    descriptors,
    negotiate,
)
from tests.transfer.moves import by_byte, by_byte_of
from tests.transfer.naive import element_moves


def mha(page_size: int, layout: Any = "nhd", *, heads: int = 2, **other: Any) -> Any:
    wanted: dict[str, Any] = {"dtype": torch.bfloat16, "head_dim": 8} | other
    return build_reference(
        MHALeafRequest(
            size=192,
            page_size=page_size,
            head_num=heads,
            layer_num=2,
            layout=layout,
            device="cpu",
            **wanted,
        )
    )


def mla(page_size: int) -> Any:
    return build_reference(
        MLALeafRequest(
            size=192,
            page_size=page_size,
            dtype=torch.bfloat16,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            layer_num=1,
            device="cpu",
        )
    )


def regions(manifest: PoolManifest) -> list[BufferRegion]:
    return [each.region for each in manifest.pool("target").regions]


def expected(
    ends: tuple[PoolManifest, PoolManifest], tokens: list[tuple[int, int]], *heads: tuple[int, int]
) -> dict[int, int]:
    return by_byte_of(
        move
        for here, there in zip(*map(regions, ends), strict=True)
        for layer_id in here.layer_ids
        for move in element_moves(here, there, layer_id, tokens, heads)
    )


def got(plan: TransferPlan, local: list[int], remote: list[int]) -> dict[int, int]:
    return by_byte(descriptors(plan, {"full": (local, remote)}))


POOLS: dict[str, Any] = {
    "nhd": mha,
    "paged_nhd": lambda size: mha(size, "paged_nhd"),
    "hnd of one head": lambda size: mha(size, "hnd", heads=1),
    "page_envelope": lambda size: mha(size, "page_envelope"),
    "latent_rows": mla,
    "mxfp8": lambda size: mha(size, head_dim=32, dtype=torch.float8_e4m3fn, quant_scheme="mxfp8"),
}


@pytest.mark.parametrize("sizes", [(4, 16), (16, 4), (1, 8)], ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_smaller_pages_are_parts_of_longer_ones(name: str, sizes: tuple[int, int]) -> None:
    ends = describe(POOLS[name](sizes[0])), describe(POOLS[name](sizes[1]))
    plan = negotiate(*ends)
    unit = min(sizes)
    counts = plan.spaces["full"]
    assert (counts.local, counts.remote, counts.page_size) == (*sizes, unit)
    local, remote = [18, 19, 30], [21, 22, 16]
    tokens = [
        (a * unit + t, b * unit + t)
        for a, b in zip(local, remote, strict=True)
        for t in range(unit)
    ]
    assert got(plan, local, remote) == expected(ends, tokens)


def test_heads_and_page_sizes_may_differ_at_once() -> None:
    ends = describe(mha(4), heads=range(2, 4)), describe(mha(16, heads=4), heads=range(4))
    tokens = [(20 + t, 36 + t) for t in range(4)]
    assert got(negotiate(*ends), [5], [9]) == expected(ends, tokens, (0, 2), (1, 3))


@pytest.mark.parametrize("sizes", [(4, 16), (16, 4)], ids=str)
def test_all_of_the_reserved_page_is_reserved(sizes: tuple[int, int]) -> None:
    plan = negotiate(describe(mha(sizes[0])), describe(mha(sizes[1])))
    first = [size // 4 for size in sizes]
    assert got(plan, [first[0]], [first[1]])
    for end in (0, 1):
        below = [first[0], first[1]]
        below[end] -= 1
        with pytest.raises(ValueError, match=f"page {below[end]} is reserved"):
            got(plan, [below[0]], [below[1]])


def test_pages_past_the_last_are_those_of_each_side() -> None:
    plan = negotiate(describe(mha(4)), describe(mha(16)))
    assert got(plan, [48], [51])
    with pytest.raises(IndexError, match=r"full: local page 49 is outside 0\.\.48"):
        got(plan, [49], [51])
    with pytest.raises(IndexError, match=r"full: remote page 52 is outside 0\.\.51"):
        got(plan, [48], [52])


def test_sizes_that_are_no_multiples_are_refused() -> None:
    with pytest.raises(NegotiationError, match="page_size: 6 here, 16 there; one has to be a mul"):
        negotiate(describe(mha(6)), describe(mha(16)))


@pytest.mark.parametrize("layout", ["hnd", "vectorized_5d"])
def test_layouts_whose_tokens_lie_apart_are_refused_by_name(layout: str) -> None:
    ends = describe(mha(8, layout)), describe(mha(16, layout))
    told = rf"page_size: 8 here, 16 there; the longer pages \(layout {layout}\)"
    with pytest.raises(NegotiationError, match=told) as refused:
        negotiate(*ends)
    assert {each.field for each in refused.value.refusals} == {"page_size"}


def test_rows_with_a_gap_after_the_last_are_no_rows() -> None:
    """Rows of 16 bytes, and what is left of the page behind all of them."""

    def padded(page_size: int) -> PoolManifest:
        token = row_major("uint8", ("token", page_size), ("dim", 16))
        region = BufferRegion(
            layer_ids=(0,),
            bases=(1 << 20,),
            page_count=8,
            page_size=page_size,
            bytes_per_page=20 * page_size,
            fields=(
                Field("latent", "uint8", token),
                Field(
                    "padding",
                    "uint8",
                    row_major("uint8", ("token", page_size), ("dim", 4)),
                    offset=16 * page_size,
                ),
            ),
        )
        part = PoolPart(
            name="target",
            page_size=page_size,
            traits=None,
            regions=(ManifestRegion(space="full", region=region),),
        )
        return PoolManifest(owner=str(page_size), pools=(part,))

    negotiate(padded(4), padded(4))
    with pytest.raises(NegotiationError, match=r"page_size: 4 here, 8 there; .*layout of its own"):
        negotiate(padded(4), padded(8))


def test_index_pages_with_their_scales_at_the_end_are_refused() -> None:
    def dsa(page_size: int) -> Any:
        return build_reference(
            DSALeafRequest(
                size=64,
                page_size=page_size,
                dtype=torch.bfloat16,
                kv_lora_rank=16,
                qk_rope_head_dim=8,
                index_head_dim=128,
                layer_num=1,
                device="cpu",
            )
        )

    with pytest.raises(NegotiationError, match="index_key/scale: page_size: 16 here, 32 there"):
        negotiate(describe(dsa(16)), describe(dsa(32)))
