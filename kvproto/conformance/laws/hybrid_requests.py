"""What a hybrid is given for a request: locations of two spaces, and slots for its state."""

from __future__ import annotations

import torch

from kvproto.protocols import HostCopyable, HybridComposite, MLALatent

from ..composite_bench import HybridBench
from ..kv_bench import LayerStub, WriteLoc
from ..law import has_layers, law
from ..not_asked import NotAsked
from .hybrid import LAYERS


@law(
    "hybrid.full-loc-parts",
    HybridComposite,
    MLALatent,
    needs=LAYERS,
    applies=has_layers,
    check="take full_loc where the object has one, in the writer of two parts too",
)
def full_loc_parts(bench: HybridBench) -> None:
    """Rows in two parts go where the object of locations says for the full leaf, as whole ones."""
    loc, elsewhere = torch.tensor([2, 1]), torch.tensor([3, 3])
    rank = bench.pool.kv_lora_rank
    for layer_id in bench.layer_ids:
        k, _ = bench.pair(8, 0, layer_id)
        form, layer = WriteLoc(elsewhere, full_loc=loc), LayerStub(layer_id)
        bench.pool.set_mla_kv_buffer(layer, form, k[:2, :, :rank], k[:2, :, rank:])
    written = {layer_id: {2: 0, 1: 1} for layer_id in bench.layer_ids}
    bench.expect_written("set_mla_kv_buffer(loc=[3, 3], full_loc=[2, 1])", written)


@law(
    "hybrid.host-copy-whole",
    HybridComposite,
    HostCopyable,
    needs=("hybrid.host-copy",),
    applies=has_layers,
    check="compare what the copy holds with the slots that are given, before a row is written",
)
def host_copy_whole(bench: HybridBench) -> None:
    """A copy with state is restored with its state or not at all: without slots it raises."""
    if not bench.pool.cpu_copy_carries_mamba:
        raise NotAsked("its copies carry no state, as cpu_copy_carries_mamba says")
    loc, to = torch.tensor([1]), torch.tensor([3])
    for layer_id in bench.layer_ids:
        k, v = bench.pair(8, 0, layer_id)
        bench.write(loc, k[:1], v[:1], layer_id)
    copy = bench.pool.get_cpu_copy(loc, mamba_indices=torch.tensor([1]), req_pool_index=0)
    call = "load_cpu_copy(a copy with state, mamba_indices=None)"
    bench.expect_raises(call, lambda: bench.pool.load_cpu_copy(copy, to), ValueError)
    bench.expect_written(call, {layer_id: {1: 0} for layer_id in bench.layer_ids})
