"""Which bench a subject is put on, by the request it was built for."""

from __future__ import annotations

from typing import Any

from kvproto.protocols import (
    AllocatorRequest,
    DSALeafRequest,
    HiSparseAllocatorRequest,
    HybridPoolRequest,
    KeyOnlyLeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    NoOpLeafRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    SparseIndexLeafRequest,
    StatePoolRequest,
    StateRequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
    VirtualIdsRequest,
)

from .account_bench import AllocBench
from .bare_bench import KeyOnlyBench, NoOpBench
from .bench import Bench
from .block_bench import block_bench
from .composite_bench import HybridBench, SWABench
from .hisparse_bench import HiSparseBench
from .kv_bench import KVBench
from .latent_bench import LatentBench
from .pair_bench import PairBench
from .ring_bench import RingAllocBench, RingBench
from .row_access import RowAccess
from .row_bench import RowsBench, SlotsBench
from .sharded_bench import ShardedBench
from .sparse_bench import SparseIndexBench
from .state_bench import StateBench
from .state_rows_bench import StateRowsBench
from .virtual_bench import VirtualBench
from .window_bench import PureBench

__all__ = ["BENCHES", "bench_for"]

BENCHES: dict[type, type[Bench]] = {
    MHALeafRequest: KVBench,
    MLALeafRequest: LatentBench,
    DSALeafRequest: LatentBench,
    SparseIndexLeafRequest: SparseIndexBench,
    KeyOnlyLeafRequest: KeyOnlyBench,
    NoOpLeafRequest: NoOpBench,
    SWAPoolRequest: SWABench,
    HybridPoolRequest: HybridBench,
    SWARingPoolRequest: RingBench,
    SWARingAllocatorRequest: RingAllocBench,
    StatePoolRequest: StateBench,
    AllocatorRequest: AllocBench,
    SWAAllocatorRequest: PairBench,
    PureSWAAllocatorRequest: PureBench,
    VirtualIdsRequest: VirtualBench,
    ShardedAllocatorRequest: ShardedBench,
    HiSparseAllocatorRequest: HiSparseBench,
    StateSlotsRequest: SlotsBench,
    RequestPoolRequest: RowsBench,
    StateRequestPoolRequest: StateRowsBench,
}
"""The bench of each kind of request; laws are run on the bench they are annotated with."""


def bench_for(
    request: object, pool: object, seed: int = 0, row_access: RowAccess | None = None
) -> Bench:
    """A bench with this subject on it, which looks at it through `row_access` where it must."""
    registered = block_bench(request) or BENCHES[type(request)]
    kind: Any = registered if registered.suits(pool) else Bench
    bench: Bench = kind(request, pool, seed)
    if row_access is not None:
        bench.look_through(row_access)
    return bench
