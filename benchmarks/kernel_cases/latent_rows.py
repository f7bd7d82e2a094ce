"""Latent rows, written from two parts and read as two parts."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.rows import Moved, moved
from kvproto.kernels import (
    load_latent_rows,
    load_packed_latent_rows,
    pack_latent_rows,
    packed_latent_width,
    store_latent_rows,
    store_packed_latent_rows,
)
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.load_latent_rows import plan_load_latent_rows
from kvproto.kernels.triton.packed_latent import plan_load_packed_latent, plan_store_packed_latent
from kvproto.kernels.triton.store_fp8_row_sets import plan_store_fp8_row_sets
from kvproto.kernels.triton.store_row_sets import plan_store_row_sets

__all__ = ["cases"]

_RANK, _ROPE = 512, 64
"""Of every model with latents among the ten, and of all others of the configurator's examples."""

_BF16, _FP8, _FNUZ = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz


def cases() -> Iterator[Case]:
    """Rows in bf16, in the fp8 of each vendor, and packed; reads in bf16."""
    for shape, dtype in (("bf16", _BF16), ("fp8", _FP8), ("e4m3fnuz", _FNUZ)):
        yield _store(shape, dtype)
        yield _load(shape, dtype)
    yield _store_packed()
    yield _load_packed()


def _parts(place: Place) -> tuple[Tensor, Tensor]:
    """As a projection gives them: side by side."""
    rows = place.rows(1, _RANK + _ROPE, dtype=_BF16)
    return rows[..., :_RANK], rows[..., _RANK:]


def _store(shape: str, dtype: torch.dtype) -> Case:
    stored = dtype if dtype == _BF16 else torch.uint8

    def inputs(place: Place) -> Inputs:
        target = place.pool(1, _RANK + _ROPE, dtype=stored)
        return target, place.locations(), *_parts(place), dtype

    return Case(
        operation="store_latent_rows",
        shape=shape,
        inputs=inputs,
        plan=_plan_store,
        call=store_latent_rows,
        moves=_moves_store,
        rows=_rows_stored,
        goal=0.85,
    )


def _plan_store(
    target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor, dtype: torch.dtype
) -> list[Launch]:
    sets = [(target[..., :_RANK], latent), (target[..., _RANK:], rope)]
    if dtype != _BF16:
        return [plan_store_fp8_row_sets(loc, sets, [None, None], dtype)]
    return [plan_store_row_sets(loc, sets)]


def _moves_store(
    target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor, dtype: torch.dtype
) -> int:
    elements = latent.numel() + rope.numel()
    return loc.nbytes + elements * (latent.itemsize + target.itemsize)


def _load(shape: str, dtype: torch.dtype) -> Case:
    def inputs(place: Place) -> Inputs:
        source = place.pool(1, _RANK + _ROPE, dtype=_BF16).to(dtype)
        parts = (place.rows(1, width, dtype=_BF16) for width in (_RANK, _ROPE))
        return source, place.locations(), *parts

    return Case(
        operation="load_latent_rows",
        shape=shape,
        inputs=inputs,
        plan=_plan_load,
        call=_call_load,
        moves=_moves_load,
        rows=_rows_loaded,
        goal=0.85,
    )


def _plan_load(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> list[Launch]:
    return [plan_load_latent_rows(source, loc, latent, rope)]


def _call_load(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
    found = load_latent_rows(source, loc, _RANK, latent.dtype)
    for out, part in zip((latent, rope), found, strict=True):
        out.copy_(part)


def _moves_load(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> int:
    elements = latent.numel() + rope.numel()
    return loc.nbytes + elements * (latent.itemsize + source.itemsize)


def _store_packed() -> Case:
    def inputs(place: Place) -> Inputs:
        target = place.pool(1, packed_latent_width(_RANK, _ROPE), dtype=torch.uint8)
        return target, place.locations(), *_parts(place)

    return Case(
        operation="store_packed_latent_rows",
        shape="656 bytes",
        inputs=inputs,
        plan=_plan_store_packed,
        call=store_packed_latent_rows,
        moves=_moves_packed,
        rows=_rows_stored,
        goal=0.85,
        tokens=(64,),
    )


def _plan_store_packed(target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> list[Launch]:
    return [plan_store_packed_latent(target, loc, latent, rope)]


def _moves_packed(buffer: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> int:
    return loc.nbytes + latent.nbytes + rope.nbytes + buffer.shape[-1] * loc.shape[0]


def _load_packed() -> Case:
    def inputs(place: Place) -> Inputs:
        """Bytes that a writer has left: most others are no numbers."""
        source = place.pool(1, packed_latent_width(_RANK, _ROPE), dtype=torch.uint8)
        if place.device != "meta":
            writer = Place(place.device, place.slots - 1, place.slots, place.seed)
            source[1:] = pack_latent_rows(*_parts(writer))
        parts = (place.rows(1, width, dtype=_BF16) for width in (_RANK, _ROPE))
        return source, place.locations(), *parts

    return Case(
        operation="load_packed_latent_rows",
        shape="656 bytes",
        inputs=inputs,
        plan=_plan_load_packed,
        call=_call_load_packed,
        moves=_moves_packed,
        rows=_rows_loaded,
        goal=0.85,
        tokens=(64,),
    )


def _plan_load_packed(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> list[Launch]:
    return [plan_load_packed_latent(source, loc, latent, rope)]


def _call_load_packed(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
    found = load_packed_latent_rows(source, loc, _RANK, latent.dtype)
    for out, part in zip((latent, rope), found, strict=True):
        out.copy_(part)


def _rows_stored(target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor, *_: object) -> Moved:
    return moved([latent, rope], [target])


def _rows_loaded(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> Moved:
    return moved([source], [latent, rope])
