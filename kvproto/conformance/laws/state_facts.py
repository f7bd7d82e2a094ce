"""What a pool of recurrent state costs, and that its slots change without the host waiting."""

from __future__ import annotations

import torch

from kvproto.protocols import SizeReporting, StatePool

from ..broken import LawBroken
from ..law import law
from ..state_bench import StateBench, named_tensors
from .state import TENSORS
from .sync_free import run_traced

_GIB = 1 << 30


@law(
    "state.size",
    StatePool,
    SizeReporting,
    needs=TENSORS,
    check="count the reserved slot, every convolution, and the scratch of draft tokens",
)
def size(bench: StateBench) -> None:
    """The reported bytes are those allocated, scratch included, and the GiB are the same bytes."""
    tensors = named_tensors(bench.pool.mamba_cache).values()
    storages = [t.untyped_storage() for t in tensors if t.numel()]
    owned = sum({s.data_ptr(): s.nbytes() for s in storages}.values())
    bench.expect("get_kv_size_bytes()", expected=owned, got=bench.pool.get_kv_size_bytes())
    gib = bench.pool.mem_usage
    if abs(gib * _GIB - owned) > 1:
        raise LawBroken("mem_usage", expected=f"{owned / _GIB:g} GiB", got=f"{gib:g}")


@law(
    "state.sync-free",
    StatePool,
    needs=("state.clear", "state.copy"),
    check="mask by where and clamp; slots[slots > 0] has a shape that depends on the data",
)
def sync_free(bench: StateBench) -> None:
    """Clearing and copying slots has fixed shapes and never asks the host, padding included."""
    slots, sources = torch.tensor([2, -1, 0]), torch.tensor([1, 1, 1])
    run_traced("clear_slots([2, -1, 0])", lambda: bench.pool.clear_slots(slots))
    run_traced("copy_from([1, 1, 1], [2, -1, 0])", lambda: bench.pool.copy_from(sources, slots))
