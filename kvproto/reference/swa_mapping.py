"""Where the tokens of the full space live in the window space."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels.page_slots import pages_of

__all__ = ["WindowMapping"]


class WindowMapping:
    """The table full location -> window location, and the same table by the page.

    A full page has at most one window page, and a token the same place on both. 0 means no peer;
    the entries of the reserved page stay 0. The last entry is -1, so that -1 translates to -1.
    """

    def __init__(self, size_full: int, page_size: int, device: torch.device) -> None:
        self.page_size = page_size
        self.table = torch.zeros(size_full + page_size + 1, dtype=torch.int64, device=device)
        self.table[-1] = -1
        self._by_page = self.table[:-1].view(-1, page_size)

    def translate(self, loc: Tensor) -> Tensor:
        """Window locations, int64, same shape; negative ones give -1.

        :raises IndexError: on the CPU, for locations past the end.
        """
        return self.table[loc.clamp(min=-1)]

    def last_peers(self, last_loc: Tensor) -> Tensor:
        """The peer of each location; for one without, its place on the reserved page.

        What continues from there is on the reserved page too, where `pair` drops it.
        """
        peers = self.translate(last_loc)
        return torch.where(peers == 0, last_loc % self.page_size, peers)

    def pair(self, full: Tensor, window: Tensor) -> None:
        """Give full locations their peers; of those on the reserved page, none."""
        window = window.to(torch.int64)
        self.table.index_copy_(0, full, window * (window >= self.page_size))

    def unpair(self, full: Tensor) -> None:
        """Leave full locations, `[n]` and in range, without peers."""
        self.table.index_fill_(0, full, 0)

    def unpair_pages(self, pages: Tensor) -> Tensor:
        """Leave every token of full pages without a peer: their window pages, 0 for none.

        Pages that are out of range have none. Fixed-shape. A page named twice is so in the result.
        """
        inside = (pages >= 0) & (pages < self._by_page.shape[0])
        pages = pages * inside
        window = self._by_page.index_select(0, pages).amax(1)
        self._by_page.index_fill_(0, pages, 0)
        return pages_of(window, self.page_size)

    def clear(self) -> None:
        """No location has a peer."""
        self.table[:-1].zero_()
