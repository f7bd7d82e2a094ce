"""What a composite exports of a leaf, and what it says of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from kvproto.protocols import (
    BlockScaled,
    BufferRegion,
    DeclaresRegions,
    DeclaresTraits,
    IndexerCapable,
    KVLeaf,
    LayerIdReporting,
    PoolTraits,
    Resumable,
    SizeReporting,
    StateTransferable,
    Transferable,
    supports,
)
from kvproto.protocols.traits import Kind, ReadDoor, StateIndexSpace, SwaStorage

from .composite_pool import CompositePool
from .sides import Side

__all__ = [
    "BufInfos",
    "Regions",
    "Resumes",
    "Sizes",
    "all_block_scaled",
    "composite_traits",
    "declares_traits",
    "exports_pages",
    "names_layers",
    "page_infos",
    "page_layer_ids",
    "row_infos",
    "scale_infos",
]

BufInfos = tuple[list[int], list[int], list[int]]


def exports_pages(leaf: KVLeaf) -> bool:
    """Can every byte of the leaf be exported by its page numbers?

    What the leaf exports beside its rows must go by the same pages, as index rows do.
    """
    if not supports(leaf, Transferable):
        return False
    if not supports(leaf, StateTransferable):
        return True
    if supports(leaf, DeclaresTraits):
        return leaf.pool_traits.state_index_space in ("none", "kv_pages")
    return supports(leaf, IndexerCapable)


def all_block_scaled(sides: Sequence[Side]) -> bool:
    """Does every leaf keep block scales, of keys and of values?

    Then the composite has a list for them; in any other they go with the rows.
    """
    return all(supports(side.leaf, BlockScaled) for side in sides)


def page_infos(leaf: KVLeaf) -> BufInfos:
    """Every region of a leaf by page: its rows, then its index rows, then its scales."""
    return _with_bytes(row_infos(leaf), scale_infos(leaf))


def row_infos(leaf: KVLeaf) -> BufInfos:
    """The rows of a leaf by page, then its index rows.

    A layer without index rows, whose place a leaf may keep with an item of 0 bytes, has none.
    """
    if not leaf.layer_num:
        return [], [], []
    rows = cast("Transferable", leaf).get_contiguous_buf_infos()
    if not supports(leaf, StateTransferable):
        return rows
    return _with_bytes(rows, leaf.get_state_buf_infos())


def scale_infos(leaf: KVLeaf) -> BufInfos:
    """The block scales of a leaf by page, if it keeps some."""
    if leaf.layer_num and supports(leaf, BlockScaled):
        return leaf.get_kv_scale_buf_infos()
    return [], [], []


def _with_bytes(*parts: BufInfos) -> BufInfos:
    regions = [region for part in parts for region in zip(*part, strict=True) if region[2]]
    ptrs, lens, item_lens = ([region[column] for region in regions] for column in range(3))
    return ptrs, lens, item_lens


def names_layers(side: Side) -> bool:
    """Is the layer of every exported region known?"""
    leaf = side.leaf
    if not (exports_pages(leaf) and supports(leaf, LayerIdReporting)):
        return False
    return len(page_layer_ids(side)) == len(page_infos(leaf)[0])


def page_layer_ids(side: Side) -> list[int]:
    """The global layer id of each region in `page_infos`."""
    if not side.layer_ids:
        return []
    if supports(side.leaf, DeclaresRegions):
        told = side.leaf.buffer_regions()
        ids = [i for region in told if not region.by_request for i in region.layer_ids]
    else:
        ids = cast("LayerIdReporting", side.leaf).get_kv_layer_ids()
    return [side.global_id(leaf_id) for leaf_id in ids]


class Sizes(CompositePool):
    """`SizeReporting`, over leaves that all report theirs."""

    label = "SizeReporting"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does every leaf report its size?"""
        return all(supports(side.leaf, SizeReporting) for side in sides)

    @property
    def _reporting(self) -> list[SizeReporting]:
        return [cast("SizeReporting", side.leaf) for side in self._owning]

    @property
    def mem_usage(self) -> float:
        """GiB of the leaves' buffers."""
        return sum(leaf.mem_usage for leaf in self._reporting)

    def get_kv_size_bytes(self) -> tuple[int, int] | int:
        """Bytes of both sides; a leaf of one row for both counts as keys beside one of two."""
        sizes = [leaf.get_kv_size_bytes() for leaf in self._reporting]
        pairs = [size for size in sizes if isinstance(size, tuple)]
        whole = sum(int(size) for size in sizes if not isinstance(size, tuple))
        return (sum(k for k, _ in pairs) + whole, sum(v for _, v in pairs)) if pairs else whole


class Regions(CompositePool):
    """`DeclaresRegions`, over leaves that all declare theirs."""

    label = "DeclaresRegions"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does every leaf declare its regions?"""
        return all(supports(side.leaf, DeclaresRegions) for side in sides)

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The leaves' regions, side after side, under global layer ids; tails come last."""
        told = [
            replace(region, layer_ids=tuple(side.global_id(i) for i in region.layer_ids))
            for side in self._owning
            for region in cast("DeclaresRegions", side.leaf).buffer_regions()
        ]
        return tuple(sorted(told, key=lambda region: region.by_request))


class Resumes(CompositePool):
    """`Resumable`, over leaves that all are."""

    label = "Resumable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every leaf be resumed?"""
        return all(supports(side.leaf, Resumable) for side in sides)

    def restore_reserved(self) -> None:
        """Zero slot 0 of every leaf."""
        for side in self._owning:
            cast("Resumable", side.leaf).restore_reserved()


def declares_traits(sides: Sequence[Side]) -> bool:
    """Does every leaf say what it is?"""
    return all(supports(side.leaf, DeclaresTraits) for side in sides)


def composite_traits(
    sides: Sequence[Side],
    kind: Kind,
    *,
    swa_storage: SwaStorage = "none",
    state_index_space: StateIndexSpace,
) -> PoolTraits:
    """What a composite is; of its storage, what the first leaf says.

    Read doors are aliases only where they are in every leaf; index keys are whosever there are.
    """
    told = [cast("DeclaresTraits", side.leaf).pool_traits for side in sides]
    doors: list[ReadDoor] = [traits.read_door for traits in told if traits.read_door != "alias"]
    indexed = [traits.index_scheme for traits in told if traits.index_scheme != "none"]
    transfers = {traits.transfer_layout for traits in told}
    return replace(
        told[0],
        kind=kind,
        layout="composite",
        swa_storage=swa_storage,
        state_index_space=state_index_space,
        read_door=doors[0] if doors else "alias",
        index_scheme=indexed[0] if indexed else "none",
        transfer_layout=transfers.pop()
        if len(transfers) == 1 and not indexed
        else "component_groups",
    )
