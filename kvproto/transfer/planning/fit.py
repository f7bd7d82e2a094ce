"""One pair of regions: in which fields its pages differ, so that none of them may travel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kvproto.protocols import BufferRegion, Field
from kvproto.protocols.layout import AxisName

from ..manifests.manifest import Conversion, ManifestRegion
from ..manifests.split import common_runs
from .convertible import is_convertible
from .heads import head_differences
from .order import exact_places, nest_text, nests
from .pairing import Matched

__all__ = [
    "Difference",
    "differences",
    "has_other_layout",
    "is_split",
    "kept_fields",
    "step_bytes",
]

Difference: TypeAlias = tuple[str, object, object]
"""A field, its local and its remote value."""


def differences(pair: Matched, conversion: Conversion) -> Iterator[Difference]:
    """Every field in which the pages differ, and both values of it.

    Where they lie in another order, that is no difference to sides that convert such pages.
    """
    found = [*_of_items(pair), *_of_elements(pair), *head_differences(pair.local, pair.remote)]
    found += _of_splits(pair)
    yield from found
    if not found:
        yield from _of_places(pair, conversion)


def _of_places(pair: Matched, conversion: Conversion) -> Iterator[Difference]:
    mine, theirs = pair.local.region, pair.remote.region
    converts = conversion == "staging" and is_convertible(pair)
    if has_other_layout(pair) and not converts:
        orders = [nest_text(nests(_in_one_layer(region))) for region in (mine, theirs)]
        places = ["; ".join(map(str, exact_places(_in_one_layer(r)))) for r in (mine, theirs)]
        told = orders if orders[0] != orders[1] else places
        yield "layout", told[0], told[1]
    elif _are_whole(pair) and mine.bytes_per_page != theirs.bytes_per_page:
        yield "bytes_per_page", mine.bytes_per_page, theirs.bytes_per_page


def _are_whole(pair: Matched) -> bool:
    """Does a page have the same rows at both ends?"""
    mine, theirs = pair.local, pair.remote
    layers = not mine.region.is_envelope or mine.region.layer_ids == theirs.region.layer_ids
    return mine.heads == theirs.heads and mine.split == theirs.split and layers


def is_split(pair: Matched) -> bool:
    """Do ranks hold other steps of the state, and say which?"""
    told = pair.local.split is not None and pair.remote.split is not None
    return told and pair.local.split != pair.remote.split


def _of_splits(pair: Matched) -> Iterator[Difference]:
    mine, theirs = pair.local, pair.remote
    if mine.split == theirs.split:
        return
    if mine.split is None or theirs.split is None:
        yield "split", mine.split or "not told", theirs.split or "not told"
        return
    steps = [step_bytes(each) for each in (mine, theirs)]
    if steps[0] != steps[1]:
        yield "bytes of a step", steps[0], steps[1]
    if mine.split.outer != theirs.split.outer or not any(common_runs(mine.split, theirs.split)):
        yield "split", mine.split, theirs.split


def step_bytes(each: ManifestRegion) -> int:
    """Bytes of one step of the split axis, in one row; 0 where nothing is split."""
    if each.split is None:
        return 0
    return each.region.bytes_per_page // (each.split.outer * each.split.steps)


def kept_fields(region: BufferRegion) -> tuple[Field, ...]:
    """The fields whose bytes mean something."""
    return tuple(field for field in region.fields if field.name != "padding")


def _in_one_layer(region: BufferRegion) -> list[Field]:
    return [region.in_layer(region.layer_ids[0], field) for field in kept_fields(region)]


def _of_items(pair: Matched) -> Iterator[Difference]:
    mine, theirs = pair.local, pair.remote
    if mine.region.is_envelope != theirs.region.is_envelope:
        yield "layout", _holds(mine.region), _holds(theirs.region)
    if mine.region.page_size != theirs.region.page_size:
        yield f"{mine.name} tokens", mine.region.page_size, theirs.region.page_size
    if mine.pages_per_item != theirs.pages_per_item:
        yield "pages_per_item", mine.pages_per_item, theirs.pages_per_item


def _holds(region: BufferRegion) -> str:
    return "all layers in a page" if region.is_envelope else "a page for each layer"


def _of_elements(pair: Matched) -> Iterator[Difference]:
    fields = zip(kept_fields(pair.local.region), kept_fields(pair.remote.region), strict=True)
    for here, there in fields:
        if here.element != there.element:
            fp8 = here.element.startswith("float8") and there.element.startswith("float8")
            yield "fp8_variant" if fp8 else "dtype", here.element, there.element
        mine, theirs = _sizes(here), _sizes(there)
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name) and not is_split(pair):
                yield f"{here.name} {name}", mine.get(name, "none"), theirs.get(name, "none")


def _sizes(field: Field) -> dict[str, int]:
    """Lengths of the axes that are the same on every rank and in every stage."""
    return {a.name: a.size for a in field.axes if a.name not in ("token", "layer", "head")}


def has_other_layout(pair: Matched) -> bool:
    """Do the elements lie in another order? Exactly as far apart they need only be in whole pages.

    Where heads or layers are cut off, rows are as far apart as they are; a nest that has one head
    has it at any level.
    """
    mine, theirs = (_in_one_layer(each.region) for each in (pair.local, pair.remote))
    if is_split(pair):
        return False
    if _are_whole(pair):
        return exact_places(mine) != exact_places(theirs)
    single = any(_has_one_head(field) for field in (*mine, *theirs))
    but: frozenset[AxisName] = frozenset({"head"} if single else ())
    orders = [
        [[name for name, _ in nest] for nest in nests(each, but=but)] for each in (mine, theirs)
    ]
    return orders[0] != orders[1]


def _has_one_head(field: Field) -> bool:
    return [axis.size for axis in field.axes if axis.name == "head"] == [1]
