"""What a pool keeps by state slot and by request row, beside its rows by token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import KPoolTail, supports

from ..composite_bench import HybridBench
from ..kv_bench import KVBench

__all__ = ["fill_items", "held_items"]


def fill_items(bench: KVBench) -> None:
    """Small integers, none zero, in every state slot and request row but 0."""
    for salt, held in enumerate(held_items(bench).values()):
        count = torch.arange(held.numel(), device=held.device).view(held.shape)
        held[1:] = (1 + (count + count // held[0].numel() + salt) % 7).to(held.dtype)[1:]


def held_items(bench: KVBench) -> dict[str, Tensor]:
    """`[numbers, ...]` by name: aliases by the doors of the pool, not by its regions."""
    held: dict[str, Tensor] = {}
    if isinstance(bench, HybridBench):
        for name, tensor in bench.state.tensors().items():
            for layer, slots in enumerate(tensor):
                held[f"{name} of state layer {layer}, slot"] = slots
    pool: Any = bench.pool
    if supports(pool, KPoolTail) and pool.kpool_use_compress:
        for layer_id in bench.layer_ids:
            keys, scores = pool.get_compress_tail_buffers(layer_id)
            if not len(keys):  # a layer without index keys of its own
                continue
            held[f"tail keys of layer {layer_id}, row"] = keys
            held[f"tail scores of layer {layer_id}, row"] = scores
    return held
