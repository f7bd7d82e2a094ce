"""Pages of all layers, out of a pool and into it, in the orders of a host pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, heads_of, latent_of, layers_of
from benchmarks.kernel_cases.rows import Moved, Rows, plain_rows
from kvproto.kernels import PageOrder, by_layer, gather_pages, scatter_pages
from kvproto.kernels.triton.copy_pages import plan_copy_pages
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]

_PAGE_SIZE = 64
_ORDERS: tuple[PageOrder, ...] = ("page_first", "page_first_direct", "layer_first")


def cases() -> Iterator[Case]:
    """Keys or latents of each model in bf16, the orders in turn; both ways."""
    for number, model in enumerate(MODELS):
        order = _ORDERS[number % len(_ORDERS)]
        heads, latent = heads_of(model), latent_of(model)
        width = heads.heads * heads.key if heads else 0
        width = latent.kv_lora_rank + latent.qk_rope_head_dim if latent else width
        for operation in ("gather_pages", "scatter_pages"):
            yield _case(operation, f"{model}, {order}", order, width, layers_of(model))


def _case(operation: str, shape: str, order: PageOrder, width: int, layers: int) -> Case:
    gather = operation == "gather_pages"

    def inputs(place: Place) -> Inputs:
        small = place.device == "cpu"
        page_size, count = (8, 2) if small else (_PAGE_SIZE, layers)
        n, pages = max(7, place.tokens // page_size), max(15, place.slots // page_size)
        pool = Place(place.device, n, pages * page_size, place.seed)
        buffers = [pool.pool(width, dtype=torch.bfloat16) for _ in range(count)]
        for buffer in buffers:
            buffer[:page_size].zero_()
        index = Place(place.device, n, pages, place.seed, padding=place.padding).locations()
        sizes = {"layers": count, "pages": n, "tokens": page_size}
        axes = {
            "layer_first": ("layers", "pages", "tokens"),
            "page_first": ("pages", "tokens", "layers"),
            "page_first_direct": ("pages", "layers", "tokens"),
        }
        extents = [sizes[axis] for axis in axes[order]]
        return buffers, index, by_layer(pool.whole(*extents, width, dtype=torch.bfloat16), order)

    return Case(
        operation=operation,
        shape=shape,
        inputs=inputs,
        plan=partial(_plan, not gather),
        call=gather_pages if gather else scatter_pages,
        moves=_moves,
        rows=_read if gather else _written,
        plain=_plain if gather else None,
        goal=0.85 if gather else 0.0,
        tokens=(64,),
        at_most=1.02,
        why="every program reads where its layer begins, and its page",
        bulk=2048,
    )


def _plan(into_pool: bool, buffers: Sequence[Tensor], pages: Tensor, out: Tensor) -> list[Launch]:
    return [plan_copy_pages(buffers, pages, out, into_pool=into_pool)]


def _moves(buffers: Sequence[Tensor], pages: Tensor, out: Tensor) -> int:
    return pages.nbytes + 2 * out.nbytes


def _plain(buffers: Sequence[Tensor], pages: Tensor, out: Tensor) -> None:
    for buffer, into in zip(buffers, out, strict=True):
        into.copy_(buffer.view(-1, *out.shape[2:]).index_select(0, pages))


def _read(buffers: Sequence[Tensor], pages: Tensor, out: Tensor) -> Moved:
    """Rows in the pool's memory and in the other, which is `[layers, pages, tokens, width]`."""
    return Moved(plain_rows(buffers), [Rows(out, 3)])


def _written(buffers: Sequence[Tensor], pages: Tensor, given: Tensor) -> Moved:
    return Moved([Rows(given, 3)], plain_rows(buffers))
