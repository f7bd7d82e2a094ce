"""Recurrent state: what a slot holds when it is handed on, copied, retracted or sent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch

from kvproto.protocols import StatePool

from ..broken import LawBroken
from ..law import law
from ..oracle import peek
from ..state_bench import StateBench, named_tensors

TENSORS = ("state.tensors",)


@law(
    "state.tensors",
    StatePool,
    check="allocate size + 1 slots of every tensor in every layer, zeroed",
)
def tensors(bench: StateBench) -> None:
    """Every tensor asked for is in `mamba_cache`, `[layers, size + 1, ...]` and zero."""
    found = sorted(tuple(t.shape) for t in bench.tensors().values())
    wanted = sorted((bench.layers, bench.slots, *shape) for shape in bench.shapes)
    bench.expect("shapes in mamba_cache", expected=wanted, got=found)
    bench.expect("pool.size", expected=bench.request.size, got=bench.pool.size)
    for slot in range(bench.slots):
        bench.expect_zero("a new pool", slot)


@law(
    "state.clear",
    StatePool,
    needs=TENSORS,
    check="zero every tensor of every layer: lists and tuples of convolutions included",
)
def clear(bench: StateBench) -> None:
    """A cleared slot is zero in every tensor of every layer, NaN or not; the others stay."""
    for slot in range(1, bench.slots):
        bench.fill(slot, float("nan"))
    kept = bench.bytes_of(3)
    for dtype in (torch.int32, torch.int64):
        bench.fill(2, float("nan"))
        bench.pool.clear_slots(torch.tensor([2, 1], dtype=dtype))
        call = f"clear_slots([2, 1] {dtype}) after filling with NaN"
        for slot in (0, 1, 2):
            bench.expect_zero(call, slot)
        bench.expect_slot(call, 3, kept, "left alone")
    bench.pool.clear_slots(torch.empty(0, dtype=torch.int64))
    bench.expect_slot("clear_slots([])", 3, kept, "left alone")


@law(
    "state.copy",
    StatePool,
    needs=TENSORS,
    check="copy every tensor of every layer; a slot that is its own target stays",
)
def copy(bench: StateBench) -> None:
    """A fork covers every tensor of every layer and leaves its source; onto itself it is none."""
    bench.fill(1, 5.0)
    bench.fill(3, 2.0)
    one, three = bench.bytes_of(1), bench.bytes_of(3)
    bench.pool.copy_from(torch.tensor([1]), torch.tensor([2]))
    call = "copy_from([1], [2])"
    bench.expect_slot(call, 2, one, "as slot 1")
    bench.expect_slot(call, 1, one, "unchanged")
    bench.expect_slot(call, 3, three, "unchanged")
    bench.pool.copy_from(torch.tensor([1, 3]), torch.tensor([1, 3]))
    for slot, held in ((1, one), (2, one), (3, three)):
        bench.expect_slot("copy_from([1, 3], [1, 3])", slot, held, "unchanged")


@law(
    "state.slot-zero",
    StatePool,
    needs=TENSORS,
    check="drop slot 0 as a target: requests without a slot hold it",
)
def slot_zero(bench: StateBench) -> None:
    """The reserved slot stays zero, whatever is copied or restored onto it."""
    bench.fill(1, 5.0)
    saved = bench.pool.get_cpu_copy(torch.tensor([1]))
    zero, one = torch.tensor([0]), torch.tensor([1])
    calls: dict[str, Callable[[], object]] = {
        "copy_from([1], [0])": lambda: bench.pool.copy_from(one, zero),
        "load_cpu_copy(..., [0])": lambda: bench.pool.load_cpu_copy(saved, zero),
        "clear_slots([0])": lambda: bench.pool.clear_slots(zero),
    }
    for call, action in calls.items():
        with suppress(ValueError, IndexError):  # to refuse is as good as to drop
            action()
        bench.expect_zero(call, 0)


@law(
    "state.host-copy",
    StatePool,
    needs=TENSORS,
    check="copy out every tensor of every layer, and write all of them back",
)
def host_copy(bench: StateBench) -> None:
    """A copy restores every tensor of every layer, also to other slots, and is a copy."""
    bench.fill(1, 5.0)
    bench.fill(2, 7.0)
    one, two = bench.bytes_of(1), bench.bytes_of(2)
    saved = bench.pool.get_cpu_copy(torch.tensor([1, 2]))
    bench.fill(1, 0.0)
    bench.fill(2, 0.0)
    bench.pool.load_cpu_copy(saved, torch.tensor([3, 1]))
    call = "load_cpu_copy(get_cpu_copy([1, 2]), [3, 1])"
    bench.expect_slot(call, 3, one, "as slot 1 was")
    bench.expect_slot(call, 1, two, "as slot 2 was")
    bench.expect_zero(call, 2)


@law(
    "state.transfer-items",
    StatePool,
    needs=TENSORS,
    check="an item is one slot of one layer of one tensor; name the global layer id of each entry",
)
def transfer_items(bench: StateBench) -> None:
    """An item is one slot: entry by entry the bytes of a slot, every tensor and layer once."""
    infos = bench.pool.get_contiguous_buf_infos()
    pointers, lengths, items = infos
    entries = len(bench.shapes) * bench.layers
    sizes = [len(pointers), len(lengths), len(items)]
    bench.expect("get_contiguous_buf_infos()", expected=[entries] * 3, got=sizes)
    bench.expect("bytes of an item in all entries", expected=bench.slot_bytes, got=sum(items))
    for pointer, length, item in zip(*infos, strict=True):
        if length != item * bench.slots:
            raise LawBroken(
                f"get_contiguous_buf_infos() of {bench.slots} slots",
                expected=f"{item * bench.slots} bytes in items of {item}",
                got=f"{length} bytes at {pointer:#x}",
            )
    for slot in range(1, bench.slots):
        bench.fill(slot, float(slot))
        found = [peek(p + slot * item, item) for p, item in zip(pointers, items, strict=True)]
        bench.expect_slot(f"item {slot} of each entry", slot, found, "as exported")
    ids = bench.pool.get_state_layer_ids()
    bench.expect_layer_ids("get_state_layer_ids()", ids, infos)


@law(
    "state.layer-cache",
    StatePool,
    needs=TENSORS,
    check="index every tensor by the layer's position; hand out views, not copies",
)
def layer_cache(bench: StateBench) -> None:
    """The cache of one layer, by position, is aliases of that layer's tensors and no other's."""
    names = list(bench.tensors())
    for position in range(bench.layers):
        one = named_tensors(bench.pool.mamba2_layer_cache(position))
        for name in names:
            call = f"mamba2_layer_cache({position}).{name}"
            if name not in one:
                raise LawBroken(call, expected="a tensor", got=f"only {sorted(one)}")
            whole = bench.tensors()[name][position]
            if one[name].data_ptr() != whole.data_ptr() or one[name].shape != whole.shape:
                raise LawBroken(
                    call, expected=f"an alias of layer {position}", got="another tensor"
                )
