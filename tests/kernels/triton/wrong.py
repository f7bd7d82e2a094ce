# pyright: basic
"""Kernels with the mistakes that are looked for."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproto.kernels.triton.launch import Launch

__all__ = ["wrong_launches"]


@triton.jit
def location_times_row(target, loc, rows, WIDTH: tl.constexpr):
    """int32 locations times a row's width, in 32 bits."""
    slot = tl.load(loc + tl.program_id(0))
    column = tl.arange(0, WIDTH)
    tl.store(target + slot * WIDTH + column, tl.load(rows + column))


@triton.jit
def program_times_pitch(target, loc, rows, pitch, WIDTH: tl.constexpr):
    """The number of a program times a pitch, in 32 bits and through a loop."""
    column = tl.arange(0, WIDTH)
    at = tl.program_id(0) * pitch
    for _ in range(4):
        tl.store(target + at + column, tl.load(rows + column))
        at += WIDTH


@triton.jit
def widened_too_late(target, loc, rows, WIDTH: tl.constexpr):
    """The product is taken first."""
    slot = tl.load(loc + tl.program_id(0))
    column = tl.arange(0, WIDTH)
    tl.store(target + (slot * WIDTH).to(tl.int64) + column, tl.load(rows + column))


@triton.jit
def shifted_location(target, loc, rows, WIDTH: tl.constexpr):
    """A product that is written as a shift."""
    slot = tl.load(loc + tl.program_id(0))
    column = tl.arange(0, WIDTH)
    tl.store(target + (slot << 8) + column, tl.load(rows + column))


@triton.jit
def doubled_location(target, loc, rows, WIDTH: tl.constexpr):
    """A product that is written as sums."""
    slot = tl.load(loc + tl.program_id(0))
    column = tl.arange(0, WIDTH)
    twice = slot + slot
    tl.store(target + twice + twice + column, tl.load(rows + column))


@triton.jit
def added_around_a_loop(target, loc, rows, pitch, WIDTH: tl.constexpr):
    """A product that is written as a loop."""
    column = tl.arange(0, WIDTH)
    at = tl.program_id(0)
    for _ in range(loc.dtype.element_ty.primitive_bitwidth):
        tl.store(target + at + column, tl.load(rows + column))
        at += pitch


@triton.jit
def summed_lengths(target, loc, rows, WIDTH: tl.constexpr):
    """int32 lengths that a reduction adds up."""
    column = tl.arange(0, WIDTH)
    at = tl.sum(tl.load(loc + column))
    tl.store(target + at, tl.load(rows))


@triton.jit
def scanned_lengths(target, loc, rows, WIDTH: tl.constexpr):
    """int32 lengths that a scan adds up."""
    column = tl.arange(0, WIDTH)
    at = tl.cumsum(tl.load(loc + column), 0)
    tl.store(target + at, tl.load(rows + column))


def wrong_launches() -> dict[str, Launch]:
    """By name."""
    target, rows = (torch.empty(n, 256, dtype=torch.int64, device="meta") for n in (1 << 20, 1))
    loc = torch.empty(64, dtype=torch.int32, device="meta")
    given = {"target": target, "loc": loc, "rows": rows}
    kernels = (
        (location_times_row, given),
        (program_times_pitch, given | {"pitch": 256}),
        (widened_too_late, given),
        (shifted_location, given),
        (doubled_location, given),
        (added_around_a_loop, given | {"pitch": 256}),
        (summed_lengths, given),
        (scanned_lengths, given),
    )
    return {
        kernel.__name__: Launch(kernel, (64,), arguments, {"WIDTH": 256}, loc.device)
        for kernel, arguments in kernels
    }
