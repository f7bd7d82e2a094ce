"""What stays as it is: declared facts, buffers by layer, entries of a row, slots to plan with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.protocols import (
    DeclaresTraits,
    KVPool,
    MHARows,
    RequestPool,
    StateSlotAllocator,
    supports,
)

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from ..not_asked import NotAsked
from ..row_bench import RowsBench, SlotsBench
from .leaf import OWNED


@law(
    "traits.constant",
    DeclaresTraits,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="work the facts out when the pool is built",
)
def constant(bench: KVBench) -> None:
    """The declared facts are the same for the life of the pool, whatever is written."""
    before = bench.pool.pool_traits
    bench.write(torch.tensor([1]), *bench.pair(1))
    bench.expect("pool_traits after a write", expected=before, got=bench.pool.pool_traits)


@law(
    "mha.buffers",
    MHARows,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="list the buffers of the owned layers in order: position 0 is layer start_layer",
)
def buffers(bench: KVBench) -> None:
    """The buffer at a layer's position in the stage is what its read door is an alias of."""
    pool = bench.pool
    if _door(pool) != "alias":
        raise NotAsked("its read doors make copies, as pool_traits.read_door says")
    for position, layer_id in enumerate(bench.layer_ids):
        for name, read in (("k_buffer", pool.get_key_buffer), ("v_buffer", pool.get_value_buffer)):
            held: Sequence[Tensor] = getattr(pool, name)
            if held[position].untyped_storage().data_ptr() != _storage(read(layer_id)):
                raise LawBroken(
                    f"{name}[{position}]", expected=f"the rows of layer {layer_id}", got="others"
                )


@law(
    "request.entries-stay",
    RequestPool,
    check="leave the row as it is; who is given it next writes what it reads",
)
def entries_stay(bench: RowsBench) -> None:
    """A row that was given back keeps its entries until it is given to another request."""
    held = bench.requests(1)
    row = bench.alloc(held)[0]
    slots = [7, 8, 9]
    bench.pool.write((row, slice(0, 3)), torch.tensor(slots, dtype=torch.int32))
    bench.pool.free(held[0])
    got = bench.pool.req_to_token[row, :3].tolist()
    bench.expect(f"row {row} after free", expected=slots, got=got)


@law(
    "state-slots.schedulable",
    StateSlotAllocator,
    check="never promise more than alloc can give; without shared bytes it is available_size",
)
def schedulable(bench: SlotsBench) -> None:
    """The slots to plan with are at most those that are available, as built and in use."""
    pool = bench.pool
    for held in (0, 1, pool.available_size() - 1):
        bench.take(held)
        planned, available = pool.schedulable_available_size(), pool.available_size()
        if not 0 <= planned <= available:
            raise LawBroken(
                "schedulable_available_size()", expected=f"0 to {available}", got=str(planned)
            )


def _door(pool: object) -> str:
    return pool.pool_traits.read_door if supports(pool, DeclaresTraits) else "alias"


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
