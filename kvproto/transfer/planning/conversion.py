"""From staging memory to the receiver's own pages, in its own layout, by a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kvproto.kernels import convert_pages

from ..manifests.manifest import IndexSpace
from .convertible import row_tiles
from .page_lists import PageLists, checked_pages
from .plan import PlannedEnd, RegionPair, TransferPlan
from .staging import staging_bytes_of, staging_places

__all__ = ["OwnPages", "convert_own", "convert_staged", "receiver_layers"]

OwnPages: TypeAlias = Mapping[IndexSpace, NDArray[np.int64]]
"""By space, the receiver's pages in the order of the list, in pages of the plan."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


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
    checked = checked_pages(plan, pages, with_reserved=False)
    own: OwnPages = {
        space: ends[1 if plan.direction == "write" else 0] for space, ends in checked.items()
    }
    needed = staging_bytes_of(plan, _counts(own))
    if staging.dtype != torch.uint8 or staging.numel() < needed or not staging.is_contiguous():
        raise ValueError(
            f"staging is {staging.dtype} {tuple(staging.shape)}, must be {needed} dense bytes; "
            "nothing was written"
        )
    storages = _storages(memory)
    convert_own(plan, own, staging, receiver_layers(plan, partial(_held, storages)))


def receiver_layers(plan: TransferPlan, opened: Callable[[int, int], Tensor]) -> list[list[Tensor]]:
    """Of each converted pair all pages of each layer at the receiver, as bytes.

    `opened(address, nbytes)` shows them, uint8 `[nbytes]`.
    """
    ends = (_receiver(plan, pair) for pair in plan.pairs if pair.is_converted)
    return [[opened(base, end.page_count * end.page_stride) for base in end.bases] for end in ends]


def convert_own(
    plan: TransferPlan, own: OwnPages, staging: Tensor, layers: Sequence[Sequence[Tensor]]
) -> None:
    """`convert_staged` for a receiver that knows its pages to be there, of `receiver_layers`.

    On a device it goes to the current stream.
    """
    counts = _counts(own)
    numbers = {
        space: torch.as_tensor(pages).to(staging.device, non_blocking=True)
        for space, pages in own.items()
    }
    for (pair, begin), held in zip(staging_places(plan, counts), layers, strict=True):
        if count := counts.get(pair.space, 0):
            nbytes = count * pair.pieces.total
            parts = staging[begin : begin + nbytes * len(held)].view(len(held), nbytes)
            _convert(plan, pair, parts, held, numbers[pair.space])


def _convert(
    plan: TransferPlan, pair: RegionPair, parts: Tensor, layers: Sequence[Tensor], numbers: Tensor
) -> None:
    """`parts` is `[layers, bytes of the pages]`."""
    ends = (pair.local, pair.remote) if plan.direction == "write" else (pair.remote, pair.local)
    sender, receiver = (end.region for end in ends)
    element = _INTEGERS[sender.fields[0].element_bytes]
    order = torch.arange(len(numbers), device=parts.device)
    for part, layer in zip(parts, layers, strict=True):
        convert_pages(
            part.view(element),
            row_tiles(sender),
            order,
            layer.view(element),
            row_tiles(receiver),
            numbers,
        )


def _counts(own: OwnPages) -> dict[IndexSpace, int]:
    return {space: len(pages) for space, pages in own.items()}


def _receiver(plan: TransferPlan, pair: RegionPair) -> PlannedEnd:
    return pair.remote if plan.direction == "write" else pair.local


def _storages(memory: Iterable[Tensor]) -> list[Tensor]:
    """Whole storages as bytes."""
    found: Iterator[torch.UntypedStorage] = (tensor.untyped_storage() for tensor in memory)
    return [torch.empty(0, dtype=torch.uint8, device=s.device).set_(s) for s in found]


def _held(storages: Sequence[Tensor], base: int, nbytes: int) -> Tensor:
    for whole in storages:
        begin = base - whole.data_ptr()
        if begin >= 0 and begin + nbytes <= whole.numel():
            return whole[begin : begin + nbytes]
    raise ValueError(
        f"no tensor of memory= has the {nbytes} bytes at {base:#x}; nothing was written"
    )
