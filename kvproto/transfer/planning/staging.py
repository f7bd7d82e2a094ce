"""Where pages of another layout arrive before they are converted: in memory of the receiver's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ..manifests.manifest import IndexSpace
from .page_lists import PageLists, checked_pages, counts_of
from .plan import RegionPair, TransferPlan

__all__ = [
    "Counts",
    "direct_plan",
    "most_staging_bytes",
    "staged_pairs",
    "staged_plan",
    "staging_bytes",
    "staging_bytes_of",
    "staging_places",
]

Counts: TypeAlias = Mapping[IndexSpace, int]
"""How many pages of each space travel, in pages of the plan."""

_ALIGNED = 8
"""Bytes of the widest element: what is converted is read as integers of the elements' width."""


def staging_bytes(plan: TransferPlan, pages: PageLists) -> int:
    """Bytes of staging memory that the receiver needs for these pages; 0 where none is converted.

    :raises ValueError, IndexError: as `descriptors`.
    """
    return staging_bytes_of(plan, counts_of(checked_pages(plan, pages, with_reserved=False)))


def staging_bytes_of(plan: TransferPlan, counts: Counts) -> int:
    """The same for so many pages."""
    ends = (begin + _nbytes(pair, counts) for pair, begin in staging_places(plan, counts))
    return max(ends, default=0)


def most_staging_bytes(plan: TransferPlan) -> int:
    """Staging memory for every page that the receiver has."""
    counts: dict[IndexSpace, int] = {}
    for pair in plan.pairs:
        end = pair.remote if plan.direction == "write" else pair.local
        counts[pair.space] = max(end.page_count, counts.get(pair.space, 0))
    return staging_bytes_of(plan, counts)


def staging_places(plan: TransferPlan, counts: Counts) -> Iterator[tuple[RegionPair, int]]:
    """Each converted pair and where its first page is in staging memory, in bytes.

    There are all pages of a layer, in the sender's layout and the order of the list, then those of
    the next layer, then, from a multiple of 8 bytes on, the next pair.
    """
    begin = 0
    for pair in plan.pairs:
        if pair.is_converted:
            begin = -(-begin // _ALIGNED) * _ALIGNED
            yield pair, begin
            begin += _nbytes(pair, counts)


def staged_pairs(plan: TransferPlan, counts: Counts, address: int) -> Iterator[RegionPair]:
    """The converted pairs, with so many pages of staging memory at the receiver's end.

    It is at `address`; pages of it are numbered from 0 on in the order of the list.
    """
    for pair, begin in staging_places(plan, counts):
        count, nbytes = counts.get(pair.space, 0), pair.pieces.total
        first = address + begin
        bases = tuple(first + place * count * nbytes for place in range(len(pair.layer_ids)))
        receiver = pair.remote if plan.direction == "write" else pair.local
        end = replace(receiver, bases=bases, page_count=count, page_stride=nbytes)
        yield replace(pair, remote=end) if plan.direction == "write" else replace(pair, local=end)


def staged_plan(plan: TransferPlan, counts: Counts, address: int) -> TransferPlan:
    """The converted pairs alone, to staging memory: pages like any other for who sends them.

    Those of the receiver's end are numbered as in `staged_pairs`: none of them is reserved.
    """
    pairs = (replace(pair, is_converted=False) for pair in staged_pairs(plan, counts, address))
    return replace(plan, pairs=tuple(pairs))


def direct_plan(plan: TransferPlan) -> TransferPlan:
    """What goes to its place as it is; the plan itself where nothing is converted."""
    if not any(pair.is_converted for pair in plan.pairs):
        return plan
    return replace(plan, pairs=tuple(pair for pair in plan.pairs if not pair.is_converted))


def _nbytes(pair: RegionPair, counts: Counts) -> int:
    return counts.get(pair.space, 0) * pair.pieces.total * len(pair.layer_ids)
