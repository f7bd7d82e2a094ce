"""Pages of another layout: whole to staging memory, and by a kernel from there to their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from kvproto.kernels import convert_pages

from ..manifests.manifest import IndexSpace
from .convertible import row_tiles
from .page_lists import PageArrays, PageLists, checked_pages, counts_of
from .plan import PlannedEnd, RegionPair, TransferPlan

__all__ = ["convert_staged", "staged_pair", "staging_bytes", "staging_places"]

Counts: TypeAlias = Mapping[IndexSpace, int]
"""How many pages of each space travel."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def staging_bytes(plan: TransferPlan, pages: PageLists) -> int:
    """Bytes of staging memory that the receiver needs for these pages; 0 where none is converted.

    :raises ValueError, IndexError: as `descriptors`.
    """
    counts = counts_of(_checked(plan, pages))
    return sum(_nbytes(pair, counts) for pair in plan.pairs if pair.is_converted)


def staging_places(plan: TransferPlan, counts: Counts) -> Iterator[tuple[RegionPair, int]]:
    """Each converted pair and where its first page is in staging memory, in bytes.

    There are all pages of a layer, in the sender's layout and the order of the list, then those of
    the next layer, then the next pair.
    """
    begin = 0
    for pair in plan.pairs:
        if pair.is_converted and pair.space in counts:
            yield pair, begin
            begin += _nbytes(pair, counts)


def staged_pair(plan: TransferPlan, pair: RegionPair, address: int, count: int) -> RegionPair:
    """The pair, with `count` pages from `address` on in place of the receiver's end."""
    nbytes = pair.pieces.total
    bases = tuple(address + place * count * nbytes for place in range(len(pair.layer_ids)))
    receiver = pair.remote if plan.direction == "write" else pair.local
    end = replace(receiver, bases=bases, page_count=count, page_stride=nbytes)
    return replace(pair, remote=end) if plan.direction == "write" else replace(pair, local=end)


def convert_staged(
    plan: TransferPlan, pages: PageLists, staging: Tensor, memory: Iterable[Tensor]
) -> None:
    """Bring pages that arrived in staging memory into the receiver's own, in its layout.

    `pages` are those that the descriptors were made of. `staging` is uint8, at the address that
    they were made with. `memory` is tensors, views too, in whose storages the receiver's regions
    are, such as its `get_kv_buffer`. The reserved page stays as it is.

    :raises ValueError: for staging memory that is too small, and where no storage has a region;
        nothing is written.
    """
    checked = _checked(plan, pages)
    counts = counts_of(checked)
    needed = sum(_nbytes(pair, counts) for pair in plan.pairs if pair.is_converted)
    if staging.dtype != torch.uint8 or staging.numel() < needed or not staging.is_contiguous():
        raise ValueError(
            f"staging is {staging.dtype} {tuple(staging.shape)}, must be {needed} dense bytes; "
            "nothing was written"
        )
    storages = _storages(memory)
    jobs = [
        (pair, at, [_at(storages, base, _receiver(plan, pair)) for base in _bases(plan, pair)])
        for pair, at in staging_places(plan, counts)
    ]
    for pair, at, layers in jobs:
        own = checked[pair.space][1 if plan.direction == "write" else 0]
        numbers = torch.tensor(own, device=staging.device)
        _convert(plan, pair, staging[at : at + _nbytes(pair, counts)], layers, numbers)


def _convert(
    plan: TransferPlan, pair: RegionPair, staged: Tensor, layers: list[Tensor], numbers: Tensor
) -> None:
    ends = (pair.local, pair.remote) if plan.direction == "write" else (pair.remote, pair.local)
    sender, receiver = (end.region for end in ends)
    element = _INTEGERS[sender.fields[0].element_bytes]
    order = torch.arange(len(numbers), device=staged.device)
    parts = staged.view(len(layers), -1)
    for part, layer in zip(parts, layers, strict=True):
        convert_pages(
            part.view(element),
            row_tiles(sender),
            order,
            layer.view(element),
            row_tiles(receiver),
            numbers,
        )


def _checked(plan: TransferPlan, pages: PageLists) -> PageArrays:
    return checked_pages(plan, pages, with_reserved=False)


def _nbytes(pair: RegionPair, counts: Counts) -> int:
    return counts.get(pair.space, 0) * pair.pieces.total * len(pair.layer_ids)


def _receiver(plan: TransferPlan, pair: RegionPair) -> PlannedEnd:
    return pair.remote if plan.direction == "write" else pair.local


def _bases(plan: TransferPlan, pair: RegionPair) -> tuple[int, ...]:
    return _receiver(plan, pair).bases


def _storages(memory: Iterable[Tensor]) -> list[Tensor]:
    """Whole storages as bytes."""
    found = [tensor.untyped_storage() for tensor in memory]
    return [torch.empty(0, dtype=torch.uint8, device=s.device).set_(s) for s in found]


def _at(storages: list[Tensor], base: int, end: PlannedEnd) -> Tensor:
    """All pages of a layer, as bytes."""
    nbytes = end.page_count * end.page_stride
    for whole in storages:
        begin = base - whole.data_ptr()
        if begin >= 0 and begin + nbytes <= whole.numel():
            return whole[begin : begin + nbytes]
    raise ValueError(
        f"no tensor of memory= has the {nbytes} bytes at {base:#x}; nothing was written"
    )
