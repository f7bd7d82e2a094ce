"""Rows that leave for the host and come back."""

from __future__ import annotations

import torch

from kvproto.protocols import HostCopyable, KVPool

from ..kv_bench import KVBench
from ..law import has_layers, law
from .leaf import OWNED


@law(
    "host-copy.round-trip",
    HostCopyable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="copy every buffer that has a row per token, scales included; write all of them back",
)
def round_trip(bench: KVBench) -> None:
    """A copy taken with the callers' keywords and loaded elsewhere restores every layer's rows."""
    written = {i: bench.pair(2, salt=i, layer_id=i) for i in bench.layer_ids}
    for layer_id, (k, v) in written.items():
        bench.write(torch.tensor([1, 2]), k, v, layer_id)
    copy = bench.pool.get_cpu_copy(torch.tensor([2, 1]), mamba_indices=None, req_pool_index=0)
    for layer_id, (k, v) in written.items():
        bench.write(torch.tensor([1, 2]), torch.zeros_like(k), torch.zeros_like(v), layer_id)
    # Where tokens share an index key, each keeps its place among them.
    by = max(2, bench.index_kpool)
    to = torch.tensor([2 + by, 1 + by])
    bench.pool.load_cpu_copy(copy, to, mamba_indices=None, req_pool_index=0)
    for layer_id, pair in written.items():
        for side, rows in zip(bench.sides, pair, strict=False):
            bench.expect_rows(
                f"load_cpu_copy(get_cpu_copy([2, 1]), [{2 + by}, {1 + by}])",
                side,
                {2 + by: rows[1], 1 + by: rows[0]},
                layer_id,
            )
