"""Locations of another space: of peers, slot by slot, or of what is behind a page."""

from __future__ import annotations

import torch
from torch import Tensor

from .locations import check_locations
from .on_host import is_watched
from .page_slots import pages_of
from .triton_devices import served_by_triton

__all__ = ["paged_locations", "peer_locations"]


def peer_locations(peers: Tensor, loc: Tensor) -> Tensor:
    """`peers[loc]`, int64, the shape of `loc`: 0 for 0, whatever its peer is, and -1 below 0.

    `peers` is `[slots]` and `loc` of any shape, int32 or int64 both. A Triton kernel gives 0 for
    a location past the end. Fixed-shape.

    :raises IndexError: on the CPU, for a location past the end.
    """
    flat = loc.reshape(-1)
    if served_by_triton(loc):
        check_locations(flat, peers.shape[0])
        return _peers(peers, loc)
    if loc.is_cpu and not is_watched() and peers.shape[0] and int(peers[0]) == 0:
        try:
            return peers.index_select(0, flat).to(torch.int64).view(loc.shape)
        except IndexError:
            pass  # padding, or past the end: what follows tells which
    try:
        found = peers.index_select(0, flat.clamp(min=0)).to(torch.int64)
    except IndexError:
        check_locations(flat, peers.shape[0])
        raise
    # The entry of location 0 is not looked at: no table can give the reserved slot a peer.
    return torch.where(flat > 0, found, flat.clamp(min=-1)).view(loc.shape)


def paged_locations(table: Tensor, loc: Tensor, page_size: int) -> Tensor:
    """The slot behind each id, int64, the shape of `loc`: 0 without one, below 0 or past the end.

    `table` is `[pages]`: the page behind each page of `page_size` ids, 0 for none, as behind page
    0; `loc` is of any shape, int32 or int64 both. Fixed-shape.
    """
    if served_by_triton(loc):
        return _paged(table, loc, page_size)
    pages = pages_of(loc, page_size)
    inside = pages * ((pages >= 0) & (pages < table.shape[0]))
    behind = table[inside]
    return (behind * page_size + loc % page_size) * (behind > 0)


def _peers(peers: Tensor, loc: Tensor) -> Tensor:
    from .triton.launch import run
    from .triton.locations import plan_peer_locations

    out = torch.empty(loc.shape, dtype=torch.int64, device=loc.device)
    run(plan_peer_locations(peers, loc, out))
    return out


def _paged(table: Tensor, loc: Tensor, page_size: int) -> Tensor:
    from .triton.launch import run
    from .triton.locations import plan_paged_locations

    out = torch.empty(loc.shape, dtype=torch.int64, device=loc.device)
    run(plan_paged_locations(table, loc, page_size, out))
    return out
