"""The table that says where the tokens of one space live in a second one.

`[locations]` int64: 0 means no peer, and entries of the reserved page stay 0. Tokens of a page have
their peers on one page, in the same order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .page_slots import pages_of

__all__ = [
    "drop_without_source",
    "last_peers",
    "no_peers",
    "pair_peers",
    "peer_pages",
    "unpair_locations",
    "unpair_pages",
]


def last_peers(table: Tensor, last_loc: Tensor, page_size: int) -> Tensor:
    """The peer of each location; for one without, its place on the reserved page.

    What continues from there is on the reserved page too, where `pair_peers` drops it. `last_loc`
    is `[n]`, int32 or int64; -1 and below have none. Fixed-shape.
    """
    loc = last_loc.to(torch.int64)
    peers = table.index_select(0, loc.clamp(min=0))
    return torch.where(peers > 0, peers, loc % page_size)


def pair_peers(table: Tensor, loc: Tensor, peers: Tensor, page_size: int) -> None:
    """Give `[n]` int64 locations their peers; of those on the reserved page, none."""
    peers = peers.to(torch.int64)
    table.index_copy_(0, loc, peers * (peers >= page_size))


def peer_pages(by_page: Tensor, pages: Tensor) -> Tensor:
    """The page of the peers of each page: 0 without any, or where it is out of range.

    `by_page` is the table as `[pages, page_size]`. Fixed-shape. A page named twice is so in the
    result.
    """
    peers = by_page.index_select(0, _inside(by_page, pages)).amax(1)
    return pages_of(peers, by_page.shape[1])


def no_peers(loc: Tensor) -> Tensor:
    """What a space without a table says: 0, and -1 below 0, int64, the shape of `loc`."""
    return loc.clamp(min=-1, max=0).to(torch.int64)


def drop_without_source(targets: Tensor, sources: Tensor) -> Tensor:
    """Targets, 0 where the source of the same place is 0 or below. Fixed-shape."""
    return torch.where(sources > 0, targets, 0)


def unpair_locations(table: Tensor, loc: Tensor) -> None:
    """Leave `[n]` int64 locations without peers; they are in range."""
    table.index_fill_(0, loc, 0)


def unpair_pages(by_page: Tensor, pages: Tensor) -> None:
    """Leave every token of these pages without a peer; those out of range are skipped."""
    by_page.index_fill_(0, _inside(by_page, pages), 0)


def _inside(by_page: Tensor, pages: Tensor) -> Tensor:
    return pages * ((pages >= 0) & (pages < by_page.shape[0]))
