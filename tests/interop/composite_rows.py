# pyright: basic, reportMissingImports=false
"""Rows in composites: written, moved, and copied to the host and back."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

from tests.interop.composite_pools import WINDOW
from tests.interop.composite_scripts import (
    HYBRID,
    SWA,
    THEIRS,
    digest,
    digests,
    fill,
    layer,
    layers_of,
    leaves,
    on,
    rows,
    state_of,
    tensors,
)

__all__: list[str] = []


@on(*SWA, *HYBRID, *THEIRS, "swa over dsa and mla")
def rows_written(pool: Any) -> object:
    fill(pool)
    return digests(pool)


@on("swa over dsa and mla", "hybrid over mla", "hybrid over dsa")
def latent_parts_written(pool: Any) -> object:
    loc = torch.tensor([5, 6])
    for layer_id in layers_of(pool):
        k, _ = rows(pool, 2, layer_id)
        swa = torch.tensor([3, 4]) if layer_id in WINDOW else None
        where = KVWriteLoc(loc, swa_loc=swa)
        pool.set_mla_kv_buffer(layer(layer_id), where, k[..., :512], k[..., 512:])
    return digests(pool)


@on("swa over dsa and mla", "hybrid over dsa")
def index_keys_written(pool: Any) -> object:
    loc = torch.tensor([5, 70])
    keys = torch.arange(256).view(2, 128).remainder(100).float().to(torch.float8_e4m3fn)
    pool.set_index_k_scale_buffer(3, loc, keys, torch.tensor([[0.5], [2.0]]))
    return digests(pool), digest([pool.get_index_k_with_scale_buffer(3)])


@on(*SWA)
def locations_translated(pool: Any) -> object:
    found = pool.translate_loc_from_full_to_swa(torch.tensor([[-1, 0, 5], [6, 9, 11]]))
    return found.tolist(), str(found.dtype)


@on(*SWA, *HYBRID, *THEIRS)
def tokens_moved(pool: Any) -> object:
    """Chains of slots; all of them are inside the window."""
    fill(pool)
    pool.move_kv_cache(torch.tensor([6, 7, 9]), torch.tensor([5, 6, 7]))
    return digests(pool)


@on(*SWA, "hybrid over mha", "hybrid over mla", "hybrid over sglang's parts")
def tokens_copied_to_the_host(pool: Any) -> object:
    """Three tokens, of which one had left the window; restored, another one has."""
    fill(pool)
    slots = {"mamba_indices": torch.tensor([2, 3])} if state_of(pool) else {}
    copy = pool.get_cpu_copy(torch.tensor([5, 6, 8]), **slots)
    for tensor in [t for leaf in leaves(pool) for t in tensors(leaf)] + state_of(pool):
        tensor.zero_()
    slots = {"mamba_indices": torch.tensor([4, 1])} if slots else {}
    pool.load_cpu_copy(copy, torch.tensor([9, 10, 7]), **slots)
    return digests(pool)
