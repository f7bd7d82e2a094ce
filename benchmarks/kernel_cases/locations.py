"""Locations computed from locations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from kvproto.kernels import paged_locations, peer_locations, prefix_locations
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.locations import (
    plan_paged_locations,
    plan_peer_locations,
    plan_prefix_locations,
)

__all__ = ["cases"]

_DRAFTS = 4
_WHY = "the length of a request is read for each of its drafts"


def cases() -> Iterator[Case]:
    """Both index dtypes of drafts; peers; pages of 16 and 64."""
    for dtype in (torch.int64, torch.int32):
        yield Case(
            operation="prefix_locations",
            shape=f"{_DRAFTS} drafts, {str(dtype).partition('.')[2]}",
            inputs=partial(_drafts, dtype),
            plan=_plan_prefix,
            call=_call_prefix,
            moves=_moves_prefix,
            tokens=(64,),
            at_most=1.6,
            why=_WHY,
        )
    yield Case(
        operation="peer_locations",
        shape="int64",
        inputs=_peers,
        plan=_plan_peers,
        call=_call_peers,
        moves=_moves_peers,
        tokens=(64,),
    )
    for page_size in (16, 64):
        yield Case(
            operation="paged_locations",
            shape=f"pages of {page_size}",
            inputs=partial(_paged, page_size),
            plan=_plan_paged,
            call=_call_paged,
            moves=_moves_paged,
            tokens=(64,),
        )


def _drafts(dtype: torch.dtype, place: Place) -> Inputs:
    few = Place(place.device, place.tokens * _DRAFTS, place.slots * _DRAFTS, place.seed)
    lens = torch.arange(place.tokens, device=place.device) % (_DRAFTS + 1)
    loc = few.locations(dtype)
    return loc.view(-1, _DRAFTS), lens, torch.empty_like(loc)


def _plan_prefix(loc_2d: Tensor, lens: Tensor, out: Tensor) -> list[Launch]:
    return [plan_prefix_locations(loc_2d, lens, out)]


def _call_prefix(loc_2d: Tensor, lens: Tensor, out: Tensor) -> None:
    out.copy_(prefix_locations(loc_2d, lens))


def _moves_prefix(loc_2d: Tensor, lens: Tensor, out: Tensor) -> int:
    """Lengths are read once for each request."""
    return loc_2d.nbytes + lens.nbytes + out.nbytes


def _peers(place: Place) -> Inputs:
    peers = torch.arange(place.slots, device=place.device).flip(0)
    loc = place.locations()
    return peers, loc, torch.empty_like(loc)


def _plan_peers(peers: Tensor, loc: Tensor, out: Tensor) -> list[Launch]:
    return [plan_peer_locations(peers, loc, out)]


def _call_peers(peers: Tensor, loc: Tensor, out: Tensor) -> None:
    out.copy_(peer_locations(peers, loc))


def _moves_peers(peers: Tensor, loc: Tensor, out: Tensor) -> int:
    return loc.nbytes + out.nbytes + loc.numel() * peers.itemsize


def _paged(page_size: int, place: Place) -> Inputs:
    pages = place.slots // page_size + 1
    table = torch.arange(pages, device=place.device)
    table[1:] = table[1:].flip(0)  # nothing is behind the reserved page but itself
    loc = place.locations()
    return table, loc, page_size, torch.empty_like(loc)


def _plan_paged(table: Tensor, loc: Tensor, page_size: int, out: Tensor) -> list[Launch]:
    return [plan_paged_locations(table, loc, page_size, out)]


def _call_paged(table: Tensor, loc: Tensor, page_size: int, out: Tensor) -> None:
    out.copy_(paged_locations(table, loc, page_size))


def _moves_paged(table: Tensor, loc: Tensor, page_size: int, out: Tensor) -> int:
    return loc.nbytes + out.nbytes + loc.numel() * table.itemsize
