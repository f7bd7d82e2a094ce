"""Which pages are lent, one number a page; every function here is fixed-shape.

`owners` is `[capacity + 2]` int32, for pages `1 .. capacity` and one more at either end, for what
is out of range: 0 for a page that somebody owns, `NOT_OWNED` for the others.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["NOT_OWNED", "claim_pages", "lend_pages", "owned_pages"]

_OWNED = 0
NOT_OWNED = -(1 << 30)
"""Below zero by more than any call frees pages, see `claim_pages`."""


def lend_pages(owners: Tensor, pages: Tensor) -> None:
    """`[n]` int64 pages in range are owned from now on."""
    owners.index_fill_(0, pages, _OWNED)


def owned_pages(owners: Tensor, pages: Tensor) -> Tensor:
    """bool, `[n]` as `pages`: which of them are owned."""
    return owners.index_select(0, _inside(owners, pages)) == _OWNED


def claim_pages(owners: Tensor, pages: Tensor) -> Tensor:
    """Disown pages; the same with 0 where one was not owned, or stands there already.

    Each place writes its number onto its page: of several places of one page one reads its
    own number again. Less the state before, that is the number itself where the page was
    owned, and larger than any number where not.
    """
    pages = _inside(owners, pages)
    number = torch.arange(1, pages.shape[0] + 1, dtype=torch.int32, device=pages.device)
    before = owners.index_select(0, pages)
    owners.index_copy_(0, pages, number)
    owned = owners.index_select(0, pages).sub_(before) == number
    owners.index_fill_(0, pages, NOT_OWNED)
    return pages * owned


def _inside(owners: Tensor, pages: Tensor) -> Tensor:
    return pages.clamp(0, owners.shape[0] - 1)
