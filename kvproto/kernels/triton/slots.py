"""Copy and clear recurrent state by slot, in every layer of a tensor, in one launch.

As `move_row_sets`, a program that copies has some columns of one layer and all pairs of slots: it
reads all before it writes any. More pairs than it can hold are rows of the layers, and staged.
"""

from __future__ import annotations

from collections.abc import Iterator

import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, next_power_of_2, the_device
from .move_row_sets import IN_REGISTERS, plan_move_row_sets
from .rows import RowShape, address, row_shape

__all__ = [
    "clear_slots_kernel",
    "copy_slots_kernel",
    "plan_clear_slots",
    "plan_copy_slots",
]

_FEW = 32
_CHUNK_BYTES = 128
_CLEARED_BYTES = 4096


@triton.jit(do_not_specialize=["n", "slots"])
def copy_slots_kernel(
    state,
    src,
    dst,
    n,
    slots,
    layer_pitch,
    SHAPE: tl.constexpr,
    PAIRS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program `(c, l)` has columns `c * COLUMNS ..` of layer `l`; `layer_pitch` is in units."""
    pair = tl.arange(0, PAIRS)
    target = tl.load(dst + pair, mask=pair < n, other=0).to(tl.int64)
    source = tl.load(src + pair, mask=pair < n, other=0).to(tl.int64)
    source = tl.where(source > 0, source, 0)
    kept = (target > 0) & (target < slots) & (source < slots)
    column = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
    layer = state + tl.program_id(1).to(tl.int64) * layer_pitch * SHAPE.UNIT + column[None, :]
    words = tl.load(layer + source[:, None] * SHAPE.PITCH, mask=mask)
    tl.debug_barrier()
    tl.store(layer + target[:, None] * SHAPE.PITCH, words, mask=mask)


@triton.jit(do_not_specialize=["slots"])
def clear_slots_kernel(
    state,
    indices,
    slots,
    layer_pitch,
    SHAPE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program `(i, c, l)` has columns `c * COLUMNS ..` of slot `indices[i]` in layer `l`."""
    slot = tl.load(indices + tl.program_id(0)).to(tl.int64)
    column = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    kept = (slot > 0) & (slot < slots)
    layer = state + tl.program_id(2).to(tl.int64) * layer_pitch * SHAPE.UNIT
    zeros = tl.zeros([COLUMNS], state.dtype.element_ty)
    tl.store(layer + slot * SHAPE.PITCH + column, zeros, mask=kept & (column < SHAPE.WIDTH))


def plan_copy_slots(state: Tensor, src: Tensor, dst: Tensor) -> Iterator[Launch]:
    """`state[:, dst[i]] = state[:, src[i]]` for dense pairs; one launch for up to 256.

    :raises ValueError: for state whose slots are not dense.
    """
    n = src.shape[0]
    if n > IN_REGISTERS:
        yield from plan_move_row_sets(state.unbind(0), dst, src, "copy_slots")
        return
    shape = _shape(state, "copy_slots")
    columns = min(_CHUNK_BYTES // shape.WORD, next_power_of_2(shape.WIDTH))
    yield Launch(
        kernel=copy_slots_kernel,
        grid=(triton.cdiv(shape.WIDTH, columns) if n else 0, state.shape[0]),
        arguments={**_arguments(state, shape), "src": src, "dst": dst, "n": n},
        constants={
            "SHAPE": shape,
            "PAIRS": _FEW if n <= _FEW else IN_REGISTERS,
            "COLUMNS": columns,
        },
        device=the_device("copy_slots", (state, src, dst)),
        threads=128 if n <= _FEW else 256,
    )


def plan_clear_slots(state: Tensor, indices: Tensor) -> Launch:
    """`state[:, indices[i]] = 0` for dense indices; 0 and below are left alone, being zero.

    :raises ValueError: for state whose slots are not dense.
    """
    shape = _shape(state, "clear_slots")
    columns = min(_CLEARED_BYTES // shape.WORD, next_power_of_2(shape.WIDTH))
    chunks = triton.cdiv(shape.WIDTH, columns)
    return Launch(
        kernel=clear_slots_kernel,
        grid=(indices.shape[0], chunks, state.shape[0]),
        arguments={**_arguments(state, shape), "indices": indices},
        constants={"SHAPE": shape, "COLUMNS": columns},
        device=the_device("clear_slots", (state, indices)),
    )


def _shape(state: Tensor, operation: str) -> RowShape:
    """Of the slots of every layer: layers are at a distance that the widest access divides."""
    layers = [state[0], state[1]] if state.shape[0] > 1 else [state[0], state[0]]
    return row_shape(layers[0], layers[-1], operation)


def _arguments(state: Tensor, shape: RowShape) -> dict[str, object]:
    return {
        "state": address(state, shape.WORD),
        "slots": state.shape[1],
        "layer_pitch": state.stride(0) * state.itemsize // shape.unit_bytes,
    }
