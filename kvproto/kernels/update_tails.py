"""Add a decoded token to the ring of its request, and write the index key that it completes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .index_page import IndexLayout
from .locations import check_locations
from .pool_index_keys import pooled_rows
from .store_quantised_index_keys import store_quantised_index_keys
from .store_rows import store_rows

__all__ = ["DecodedTokens", "TailRings", "update_tails"]


class TailRings(NamedTuple):
    """Rings of raw keys and scores, `[request rows, ring, width]` each; row 0 is padding."""

    keys: Tensor
    scores: Tensor

    @property
    def length(self) -> int:
        """Tokens of a request that a ring holds."""
        return self.keys.shape[1]

    def locations(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Where a token of a position is in the rings seen as rows of `width`, int64."""
        return rows * self.length + positions.remainder(self.length)

    def store(self, loc: Tensor, keys: Tensor, scores: Tensor) -> None:
        """Store tokens at such locations; those of 0 are dropped."""
        for ring, given in zip(self, (keys, scores), strict=True):
            store_rows(ring.view(-1, ring.shape[2]), loc, given.to(ring.dtype))

    def fill(self, row: Tensor, start: int, keys: Tensor, scores: Tensor) -> None:
        """Store `[n, width]` tokens from position `start` on in a row, `[1]`; row 0 drops them."""
        positions = torch.arange(keys.shape[0], device=self.keys.device) + start
        self.store(torch.where(row > 0, self.locations(row, positions), 0), keys, scores)

    def load(self, loc: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and scores at such locations, one more axis of `width`."""
        keys, scores = (
            ring.view(-1, ring.shape[2]).index_select(0, loc.flatten()).view(*loc.shape, -1)
            for ring in self
        )
        return keys, scores


class DecodedTokens(NamedTuple):
    """A batch, a token a request: `[n, width]` keys and scores, and `[n]` of the rest, int64."""

    keys: Tensor
    scores: Tensor
    requests: Tensor
    positions: Tensor
    seq_lens: Tensor
    locations: Tensor

    def counted(self, request_rows: int) -> Tensor:
        """Which are tokens of a request, and no padding."""
        is_request = (self.requests > 0) & (self.requests < request_rows)
        is_token = (self.positions >= 0) & (self.positions < self.seq_lens)
        return is_request & is_token & (self.locations > 0)


def update_tails(
    pages: Tensor,
    rings: TailRings,
    tokens: DecodedTokens,
    bias: Tensor,
    block_tables: Tensor,
    index_page_size: int,
    *,
    round_scale: bool,
    layout: IndexLayout = "token_rows",
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> None:
    """Store each token in its ring, and the key of its group where it is the group's last.

    `pages` are index pages, `bias` is `[group, width]`, `block_tables` `[n, columns]` has the
    token pages of each request in units of `index_page_size` tokens. Keys are stored in `dtype`,
    and lie as `layout` says. Padding changes nothing.
    Fixed-shape: what is not written is zeros for slot 0.

    :raises IndexError: on CPU, for a table that names a page past the last; nothing is written.
    """
    group, counted = bias.shape[0], tokens.counted(rings.keys.shape[0])
    request = torch.where(counted, tokens.requests, 0)
    position = tokens.positions.clamp(min=0)
    place = position.remainder(group)
    steps = torch.arange(group, device=pages.device)
    members = rings.locations(request.unsqueeze(1), (position - place).unsqueeze(1) + steps)
    is_new = (steps == place.unsqueeze(1)).unsqueeze(-1)
    keys, scores = (
        torch.where(is_new, new.to(torch.float32).unsqueeze(1), held.to(torch.float32))
        for new, held in zip(tokens[:2], rings.load(members), strict=True)
    )
    number = position.div(group, rounding_mode="floor")
    slot = _index_slots(number, block_tables, index_page_size, group)
    slot = torch.where(counted & (place == group - 1), slot, 0)
    check_locations(slot, pages.shape[0] * index_page_size)
    pooled = pooled_rows(keys, scores, bias)
    store_quantised_index_keys(
        pages, slot, pooled, round_scale=round_scale, layout=layout, dtype=dtype
    )
    rings.store(torch.where(counted, rings.locations(request, position), 0), *tokens[:2])


def _index_slots(number: Tensor, tables: Tensor, index_page_size: int, group: int) -> Tensor:
    """The index slot of each request's group of that number."""
    page = number.div(index_page_size, rounding_mode="floor")
    column = (page * group).clamp(max=tables.shape[1] - 1)
    found = tables.gather(1, column.unsqueeze(1)).squeeze(1).to(torch.int64)
    page_number = found.div(group, rounding_mode="floor")
    return page_number * index_page_size + number.remainder(index_page_size)
