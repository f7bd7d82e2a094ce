"""Copy whole pages of all layers between a pool and contiguous memory, in the order that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from .locations import check_locations
from .triton_devices import served_by_triton

__all__ = ["PageOrder", "by_layer", "gather_pages", "scatter_pages"]

PageOrder: TypeAlias = Literal["layer_first", "page_first", "page_first_direct"]
"""What comes first in memory: the layer, or the page, in which all layers of a token are together
(`page_first`) or all tokens of a layer (`page_first_direct`)."""

_AXES: dict[PageOrder, tuple[int, int, int, int]] = {
    "layer_first": (0, 1, 2, 3),
    "page_first": (2, 0, 1, 3),
    "page_first_direct": (1, 0, 2, 3),
}


def by_layer(memory: Tensor, order: PageOrder) -> Tensor:
    """`[layers, pages, page_size, width]`, an alias of memory in an order.

    That is `[layers, pages, page_size, width]`, `[pages, page_size, layers, width]` or
    `[pages, layers, page_size, width]`.
    """
    return memory.permute(_AXES[order])


def gather_pages(buffers: Sequence[Tensor], pages: Tensor, out: Tensor) -> None:
    """`out[l, i]` becomes page `pages[i]` of the layer in `buffers[l]`; zeros for 0 and below.

    Buffers are `[slots, ...]`, page 0 zero, alike in shape, strides and dtype, each row dense;
    `out` is `[layers, n, page_size, width]` of their dtype (`by_layer`), `width` the elements of a
    row, on their device or, for a kernel, in pinned memory. `pages` is `[n]`, int32 or int64. A
    Triton kernel does all in one launch, and gives zeros for pages past the last. Fixed-shape.

    :raises ValueError: for buffers or `out` of another shape or dtype, or of rows that are not so;
        nothing is written.
    :raises IndexError: on the CPU, for a page past the last; nothing is written.
    """
    _check(buffers, pages, out)
    if served_by_triton(pages):
        _launch(buffers, pages, out, into_pool=False)
        return
    index = pages.clamp(min=0).to(torch.int64)
    for buffer, into in zip(buffers, out, strict=True):
        into.copy_(_paged(buffer, out).index_select(0, index))


def scatter_pages(buffers: Sequence[Tensor], pages: Tensor, given: Tensor) -> None:
    """Page `pages[i]` of the layer in `buffers[l]` becomes `given[l, i]`; 0 and below are dropped.

    As `gather_pages` otherwise; pages past the last are dropped by a kernel.

    :raises ValueError: as `gather_pages`; nothing is written.
    :raises IndexError: on the CPU, for a page past the last; nothing is written.
    """
    _check(buffers, pages, given)
    if served_by_triton(pages):
        _launch(buffers, pages, given, into_pool=True)
        return
    index, kept = pages.clamp(min=0).to(torch.int64), (pages > 0).view(-1, 1, 1)
    for buffer, rows in zip(buffers, given, strict=True):
        # What is dropped is zeros for the reserved page.
        _paged(buffer, given).index_copy_(0, index, torch.where(kept, rows, torch.zeros_like(rows)))


def _paged(buffer: Tensor, outside: Tensor) -> Tensor:
    return buffer.view(-1, *outside.shape[2:])


def _check(buffers: Sequence[Tensor], pages: Tensor, outside: Tensor) -> None:
    first = buffers[0]
    page_size = outside.shape[2]
    expected = (len(buffers), pages.shape[0], page_size, first[0].numel())
    # A kernel walks the rows of all layers as those of the first.
    strides = first.stride()
    if not first[0].is_contiguous() or any(each.stride() != strides for each in buffers):
        raise ValueError(
            f"rows of layers have strides {sorted({each.stride() for each in buffers})}, served "
            "are dense rows that are as far apart in all layers; nothing was written"
        )
    if outside.shape != expected or any(
        (each.shape, each.dtype) != (first.shape, outside.dtype) for each in buffers
    ):
        raise ValueError(
            f"contiguous pages are {outside.dtype} {tuple(outside.shape)}, must be {first.dtype} "
            f"{expected} for {len(buffers)} alike buffers {tuple(first.shape)} and "
            f"{pages.shape[0]} pages; nothing was written"
        )
    check_locations(pages, first.shape[0] // page_size)


def _launch(buffers: Sequence[Tensor], pages: Tensor, outside: Tensor, *, into_pool: bool) -> None:
    from .triton.copy_pages import plan_copy_pages
    from .triton.launch import run

    run(plan_copy_pages(buffers, pages, outside, into_pool=into_pool))
