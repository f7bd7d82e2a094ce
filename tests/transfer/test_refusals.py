"""Every field of a manifest: the one that differs is named, or it may differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from kvproto.protocols import BufferRegion, Field, PoolTraits
from kvproto.transfer import (
    ManifestRegion,
    NegotiationError,
    PoolManifest,
    PoolPart,
    Split,
    describe,
    descriptors,
    negotiate,
)
from tests.transfer.pools import BUILDERS

Change = Callable[[PoolManifest], PoolManifest]

FP8 = "reference-mha-fp8-e4m3fn-page16"


def on_part(change: Callable[[PoolPart], PoolPart]) -> Change:
    return lambda whole: replace(whole, pools=(change(whole.pools[0]),))


def on_first(change: Callable[[ManifestRegion], ManifestRegion]) -> Change:
    return on_part(lambda p: replace(p, regions=(change(p.regions[0]), *p.regions[1:])))


def on_last(change: Callable[[ManifestRegion], ManifestRegion]) -> Change:
    return on_part(lambda p: replace(p, regions=(*p.regions[:-1], change(p.regions[-1]))))


def on_region(change: Callable[[BufferRegion], BufferRegion]) -> Change:
    return on_first(lambda each: replace(each, region=change(each.region)))


def region(**changed: Any) -> Change:
    return on_region(lambda each: replace(each, **changed))


def field(change: Callable[[Field], Field]) -> Change:
    return on_region(lambda r: replace(r, fields=(change(r.fields[0]), *r.fields[1:])))


def traits(**changed: Any) -> Change:
    def change(part: PoolPart) -> PoolPart:
        assert part.traits is not None
        return replace(part, traits=replace(part.traits, **changed))

    return on_part(change)


def axes(*order: int) -> Change:
    """The steps of the first field's axes, dealt out in another order: another layout."""

    def change(given: Field) -> Field:
        sizes, at, made = given.shape, given.element_bytes, {}
        for place in reversed(order):
            tile = replace(given.axes[place].tiles[0], extent=sizes[place], stride=at)
            made[place] = replace(given.axes[place], tiles=(tile,))
            at *= sizes[place]
        return replace(given, axes=tuple(made[i] for i in range(len(sizes))))

    return field(change)


def resized(place: int, by: int) -> Change:
    """Twice or half as many steps along an axis, and the page as long as that makes it."""

    def change(whole: BufferRegion) -> BufferRegion:
        given, at = whole.fields[0], whole.fields[0].element_bytes
        sizes = [n * by if i == place else n for i, n in enumerate(given.shape)]
        made = []
        for axis, size in zip(reversed(given.axes), reversed(sizes), strict=True):
            made.append(replace(axis, tiles=(replace(axis.tiles[0], extent=size, stride=at),)))
            at *= size
        new = replace(given, axes=tuple(reversed(made)))
        return replace(whole, fields=(new,), bytes_per_page=at, page_stride=at, page_size=sizes[0])

    return on_region(change)


REFUSED: dict[str, tuple[str, Change, str]] = {
    "PoolManifest.version": (FP8, lambda m: replace(m, version=0), "version"),
    "PoolManifest.pools": (
        FP8,
        lambda m: replace(m, pools=(*m.pools, replace(m.pools[0], name="draft"))),
        "pools",
    ),
    "PoolPart.name": (
        FP8,
        lambda m: replace(m, pools=(m.pools[0], replace(m.pools[0], name="draft", regions=()))),
        "pools",
    ),
    "PoolPart.page_size": (FP8, on_part(lambda p: replace(p, page_size=6)), "page_size"),
    "PoolPart.regions": (
        FP8,
        on_part(lambda p: replace(p, regions=p.regions[:1])),
        "regions",
    ),
    "ManifestRegion.space": (FP8, on_first(lambda r: replace(r, space="window")), "regions"),
    "ManifestRegion.pages_per_item": (
        FP8,
        on_first(lambda r: replace(r, pages_per_item=7)),
        "pages_per_item",
    ),
    "ManifestRegion.heads": (FP8, on_first(lambda r: replace(r, heads=(0, 2))), "heads"),
    "ManifestRegion.split": (
        "reference-hybrid-page1",
        on_last(lambda r: replace(r, split=Split(outer=1, parts=((0, 2),)))),
        "split",
    ),
    "BufferRegion.layer_ids": (FP8, region(layer_ids=(2, 9)), "layer_ids"),
    "BufferRegion.page_size": (FP8, resized(0, 2), "key tokens"),
    "BufferRegion.bytes_per_page": (
        FP8,
        region(bytes_per_page=520, page_stride=520),
        "bytes_per_page",
    ),
    "BufferRegion.fields": (
        "reference-mla-bf16-page1",
        on_region(lambda r: replace(r, fields=r.fields[:1])),
        "regions",
    ),
    "Field.name": (FP8, field(lambda f: replace(f, name="index_key")), "regions"),
    "Field.element": (FP8, field(lambda f: replace(f, element="float8_e4m3fnuz")), "fp8_variant"),
    "Field.element as wide": (FP8, field(lambda f: replace(f, element="int8")), "dtype"),
    "Field.axes, another order": (FP8, axes(1, 0, 2), "layout"),
    "Field.axes, more heads": (FP8, resized(1, 2), "heads"),
    "Field.axes, wider": (FP8, resized(2, 2), "key dim"),
    "Field.offset": (
        "reference-mla-bf16-page1",
        on_region(lambda r: replace(r, fields=(_moved(r.fields[0], 16), _moved(r.fields[1], -32)))),
        "layout",
    ),
    "PoolTraits.quant_scheme": (
        "reference-mha-fp4-mx16-page16",
        traits(quant_scheme="nvfp4"),
        "quant_scheme",
    ),
    "PoolTraits.fp8_variant": (FP8, traits(fp8_variant="e4m3fnuz"), "fp8_variant"),
    "PoolTraits.scale_layout": (
        "reference-mha-mxfp8-page64-interleaved",
        traits(scale_layout="token_rows"),
        "scale_layout",
    ),
    "PoolTraits.index_scheme": (
        "reference-dsa-preshuffled-page32",
        traits(index_scheme="dsa_fp8_scale"),
        "index_scheme",
    ),
    "PoolTraits.swa_storage": (
        "reference-swa-page1",
        traits(swa_storage="request_ring"),
        "swa_storage",
    ),
}
"""What differs -> a pool, the change to its manifest, and the field that is named."""

ACCEPTED: dict[str, Change] = {
    "PoolManifest.owner": lambda m: replace(m, owner="other"),
    "PoolManifest.process": lambda m: replace(m, process="another"),
    "PoolManifest.conversion": lambda m: replace(m, conversion="staging"),
    "PoolPart.left_out": on_part(lambda p: replace(p, left_out=())),
    "PoolPart.traits": on_part(lambda p: replace(p, traits=None)),
    "ManifestRegion.region": region(),
    "BufferRegion.bases": region(bases=(1 << 40, 1 << 41)),
    "BufferRegion.page_count": region(page_count=3),
    "BufferRegion.page_stride": region(page_stride=1024),
    "BufferRegion.alignment": region(alignment=1, bases=(7, 4096)),
    "BufferRegion.registration_alignment": region(
        registration_alignment=64, bases=(1 << 20, 1 << 21)
    ),
    "PoolTraits.kind": traits(kind="sparse_index"),
    "PoolTraits.layout": traits(layout="paged_nhd"),
    "PoolTraits.replication": traits(replication="tp_replicated"),
    "PoolTraits.id_space": traits(id_space="virtual"),
    "PoolTraits.state_index_space": traits(state_index_space="kv_pages"),
    "PoolTraits.transfer_layout": traits(transfer_layout="component_groups"),
    "PoolTraits.read_door": traits(read_door="copy"),
    "PoolTraits.role": traits(role="draft"),
    "PoolTraits.rows_are": traits(rows_are="pages"),
}
"""What may differ: addresses, capacities, and traits that the regions say more closely."""


def _moved(given: Field, by: int) -> Field:
    return replace(given, offset=given.offset + by)


def test_every_field_is_either() -> None:
    kinds = (PoolManifest, PoolPart, ManifestRegion, BufferRegion, Field, PoolTraits)
    every = {f"{kind.__name__}.{each.name}" for kind in kinds for each in fields(kind)}
    told = {name.partition(",")[0].partition(" ")[0] for name in (*REFUSED, *ACCEPTED)}
    assert told == every


@pytest.mark.parametrize("turned", [False, True], ids=["there", "here"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_is_named(name: str, turned: bool) -> None:
    pool, change, told = REFUSED[name]
    whole = describe(BUILDERS[pool]())
    ends = (change(whole), whole) if turned else (whole, change(whole))
    with pytest.raises(NegotiationError) as refused:
        negotiate(*ends)
    assert told in {each.field for each in refused.value.refusals}
    for line, each in zip(str(refused.value).splitlines(), refused.value.refusals, strict=True):
        assert line.startswith(
            f"{each.where}: {each.field}: {each.local} here, {each.remote} there"
        )
        assert each.local != each.remote


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_may_differ_does(name: str) -> None:
    whole = describe(BUILDERS[FP8]())
    other = ACCEPTED[name](whole)
    for ends in ((whole, other), (other, whole)):
        assert len(descriptors(negotiate(*ends), {"full": ([1], [2])}).local) == 4


def test_all_differences_are_told_at_once() -> None:
    whole = describe(BUILDERS[FP8]())
    other = field(lambda f: replace(f, element="float8_e5m2"))(traits(fp8_variant="e5m2")(whole))
    with pytest.raises(NegotiationError) as refused:
        negotiate(whole, resized(2, 2)(other))
    found = [(each.where, each.field) for each in refused.value.refusals]
    key = "target full key"
    assert found == [("target", "fp8_variant"), (key, "fp8_variant"), (key, "key dim")]
