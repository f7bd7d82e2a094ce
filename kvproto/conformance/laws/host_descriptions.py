"""What builders of host tiers are told of a leaf, against what the leaf declares of its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from kvproto.protocols import DeclaresRegions, HostMirrorable, KVLeaf

from ..kv_bench import KVBench
from ..law import has_layers, law
from .transfer import padding_bytes


@law(
    "host-tier.descriptions",
    HostMirrorable,
    DeclaresRegions,
    KVLeaf,
    applies=has_layers,
    check="describe buffers as they are stored, and a host pool for each dependent set of rows",
)
def descriptions(bench: KVBench) -> None:
    """Buffers and dependent pools of the descriptions are all per-token bytes of the regions."""
    told: dict[str, int] = {}
    for info in bench.pool.get_device_pool_infos():
        nbytes = sum(tensor.nbytes for tensor in _tensors(info.buffer_info))
        told[str(info.pool_name)] = told.get(str(info.pool_name), 0) + nbytes
    for decl in bench.pool.host_pool_decls():
        if decl.storage_info is not None:
            owned = decl.owned_device_layers
            layers = bench.pool.layer_num if owned is None else len(owned)
            each: int = decl.storage_info.bytes_per_token_per_layer
            told[str(decl.pool_name)] = each * bench.slots * layers
    regions = [region for region in bench.pool.buffer_regions() if not region.by_request]
    held = sum(region.nbytes - padding_bytes(region) * region.page_count for region in regions)
    call = f"bytes of get_device_pool_infos() and host_pool_decls(), {told}"
    bench.expect(call, expected=held, got=sum(told.values()))


def _tensors(info: Any) -> Iterator[Tensor]:
    """Of rows by head those of either side, of latent rows those of each layer; with scales."""
    for part in (info.buffers, info.scales):
        if part is not None:
            yield from part if isinstance(part, tuple) else (*part.k, *part.v)
