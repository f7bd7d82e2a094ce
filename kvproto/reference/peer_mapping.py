"""Where the tokens of one space live in a smaller one."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import peer_locations
from kvproto.kernels.peer_table import (
    last_peers,
    pair_peers,
    peer_pages,
    unpair_locations,
    unpair_pages,
)

__all__ = ["PeerMapping"]


class PeerMapping:
    """The table location -> peer, and the same table by the page.

    A page has at most one page of peers, and a token the same place on both. 0 means no peer;
    the entries of the reserved page stay 0. The last entry is -1, so that -1 translates to -1.
    """

    def __init__(self, size: int, page_size: int, device: torch.device) -> None:
        self.page_size = page_size
        self.table = torch.zeros(size + page_size + 1, dtype=torch.int64, device=device)
        self.table[-1] = -1
        self._by_page = self.table[:-1].view(-1, page_size)

    def translate(self, loc: Tensor) -> Tensor:
        """Peers, int64, same shape; negative locations give -1.

        :raises IndexError: on the CPU, for locations past the end.
        """
        return peer_locations(self.table, loc)

    def last_peers(self, last_loc: Tensor) -> Tensor:
        """The peer of each location; for one without, its place on the reserved page.

        What continues from there is on the reserved page too, where `pair` drops it.
        """
        return last_peers(self.table, last_loc, self.page_size)

    def pair(self, loc: Tensor, peers: Tensor) -> None:
        """Give locations their peers; of those on the reserved page, none."""
        pair_peers(self.table, loc, peers, self.page_size)

    def unpair(self, loc: Tensor) -> None:
        """Leave locations, `[n]` and in range, without peers."""
        unpair_locations(self.table, loc)

    def unpair_pages(self, pages: Tensor) -> Tensor:
        """Leave every token of these pages without a peer: the peers' pages, as `peer_pages`."""
        peers = self.peer_pages(pages)
        unpair_pages(self._by_page, pages)
        return peers

    def peer_pages(self, pages: Tensor) -> Tensor:
        """The page of the peers of each page: 0 without any, or where it is out of range.

        Fixed-shape. A page named twice is so in the result.
        """
        return peer_pages(self._by_page, pages)

    def clear(self) -> None:
        """No location has a peer."""
        self.table[:-1].zero_()
