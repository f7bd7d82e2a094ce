"""Which bench a subject is put on, by the request it was built for."""

from __future__ import annotations

from typing import Any

from kvproto.protocols import MHALeafRequest, MLALeafRequest

from .bench import Bench
from .kv_bench import KVBench

__all__ = ["BENCHES", "bench_for"]

BENCHES: dict[type, type[Bench]] = {
    MHALeafRequest: KVBench,
    MLALeafRequest: KVBench,
}
"""The bench of each kind of request; laws are run on the bench they are annotated with."""


def bench_for(request: object, pool: object, seed: int = 0) -> Bench:
    """A bench with this subject on it."""
    kind: Any = BENCHES[type(request)]
    bench: Bench = kind(request, pool, seed)
    return bench
