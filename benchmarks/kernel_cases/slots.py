"""Recurrent state copied and cleared by slot, in all layers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, state_of
from benchmarks.kernel_cases.rows import Moved, Rows
from kvproto.kernels import clear_slots, copy_slots
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.slots import plan_clear_slots, plan_copy_slots

__all__ = ["cases"]

_LAYERS = 4
_SLOTS = 600
_SMALL_SLOTS = 60
_MOST_ON_THE_CPU = 4096


def cases() -> Iterator[Case]:
    """The convolution's window in bf16 and the temporal state in float32, of models with one."""
    for model in MODELS:
        if state := state_of(model):
            if conv := state.conv_shape(MODELS[model]):
                yield from _both(f"{model}, convolution", conv, torch.bfloat16)
            yield from _both(
                f"{model}, temporal", state.temporal_shape(MODELS[model]), torch.float32
            )


def _both(shape: str, slot: tuple[int, ...], dtype: torch.dtype) -> Iterator[Case]:
    def state(place: Place) -> Tensor:
        """On the CPU narrower slots: interpreting takes time."""
        small, slots = place.device == "cpu", _slots_of(place)
        width = min(prod(slot), _MOST_ON_THE_CPU // dtype.itemsize) if small else prod(slot)
        layers = Place(place.device, _LAYERS, slots * width, place.seed)
        made = layers.rows(slots, width, dtype=dtype)
        made[:, 0].zero_()
        return made

    def copied(place: Place) -> Inputs:
        slots, padding = _slots_of(place), place.padding
        few = Place(place.device, place.tokens, slots, place.seed, padding=padding)
        sources, targets = few.locations(), few.locations()
        sources[::2] = targets.flip(0)[::2]
        return state(place), sources, targets

    def cleared(place: Place) -> Inputs:
        made, _, targets = copied(place)
        return made, targets

    yield Case(
        operation="copy_slots",
        shape=shape,
        inputs=copied,
        plan=_plan_copy,
        call=copy_slots,
        moves=_moves_copied,
        rows=_rows_copied,
        plain=_plain_copy,
        tokens=(16, 200),
        bulk=200,
        at_most=1.07,
        why="slots are read again for every 128 bytes of one",
    )
    yield Case(
        operation="copy_slots",
        shape=f"{shape}, staged",
        inputs=copied,
        plan=_plan_copy,
        call=copy_slots,
        moves=_moves_copied,
        rows=_rows_copied,
        tokens=(300,),
        bulk=300,
        at_most=2.02,
        why="all is read and written twice, and slots for every 4096 bytes of one",
        interpret=shape == "qwen3_next, convolution",
    )
    yield Case(
        operation="clear_slots",
        shape=shape,
        inputs=cleared,
        plan=_plan_clear,
        call=clear_slots,
        moves=_moves_cleared,
        rows=_rows_cleared,
        tokens=(64,),
        bulk=200,
        at_most=1.01,
        why="slots are read again for every 4096 bytes of one",
    )


def _slots_of(place: Place) -> int:
    return max(_SMALL_SLOTS, place.tokens + 1) if place.device == "cpu" else _SLOTS


def _plan_copy(state: Tensor, src: Tensor, dst: Tensor) -> list[Launch]:
    return list(plan_copy_slots(state, src, dst))


def _plan_clear(state: Tensor, slots: Tensor) -> list[Launch]:
    return [plan_clear_slots(state, slots)]


def _moves_copied(state: Tensor, src: Tensor, dst: Tensor) -> int:
    return src.nbytes + dst.nbytes + 2 * state[:, :1].nbytes * src.shape[0]


def _moves_cleared(state: Tensor, slots: Tensor) -> int:
    return slots.nbytes + state[:, :1].nbytes * slots.shape[0]


def _plain_copy(state: Tensor, src: Tensor, dst: Tensor) -> None:
    state.index_copy_(1, dst, state.index_select(1, src))


def _rows_copied(state: Tensor, src: Tensor, dst: Tensor) -> Moved:
    return Moved([Rows(state, 2)], [Rows(state, 2)])


def _rows_cleared(state: Tensor, slots: Tensor) -> Moved:
    return Moved([], [Rows(state, 2)])
