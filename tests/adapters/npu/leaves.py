"""Small leaves of every kind on any device, and what is written to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from kvproto.adapters.npu.dsa import NPUDSALeaf, NPUScaledDSALeaf
from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.mla import LatentLayout, NPUMLALeaf
from kvproto.adapters.npu.sparse import NPUSparseIndexLeaf
from kvproto.adapters.npu.split_buffers import MLASplitBuffers

__all__ = [
    "BF16",
    "FP8",
    "FP16",
    "FP32",
    "HEADS",
    "LEAVES",
    "PAGE",
    "RANK",
    "ROPE",
    "SIZE",
    "V_WIDTH",
    "WIDTH",
    "Layer",
    "device_planes",
    "planes",
    "write",
]

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
FP8 = torch.float8_e4m3fn
PAGE, SIZE = 16, 32
HEADS, WIDTH, V_WIDTH, RANK, ROPE, INDEX = 2, 32, 16, 128, 32, 32
COMMON: dict[str, Any] = {"size": SIZE, "page_size": PAGE, "layer_num": 2, "start_layer": 3}

Make: TypeAlias = Callable[[str], Any]


class Layer:
    """An attention layer as far as a pool looks."""

    def __init__(self, layer_id: int) -> None:
        self.layer_id = layer_id


def heads(dtype: torch.dtype) -> Make:
    widths: dict[str, Any] = {"head_num": HEADS, "head_dim": WIDTH, "v_head_dim": V_WIDTH}
    return lambda device: NPUMHALeaf(**COMMON, **widths, dtype=dtype, device=device)


def latent(layout: LatentLayout, dtype: torch.dtype) -> Make:
    widths: dict[str, Any] = {"kv_lora_rank": RANK, "qk_rope_head_dim": ROPE}
    return lambda device: NPUMLALeaf(
        **COMMON, **widths, dtype=dtype, device=device, kv_cache_layout=layout
    )


def indexed(build: type[NPUDSALeaf | NPUScaledDSALeaf], dtype: torch.dtype, width: int) -> Make:
    widths: dict[str, Any] = {"kv_lora_rank": RANK, "qk_rope_head_dim": ROPE}
    widths |= {"index_head_dim": INDEX, "kv_cache_dim": width, "indexer_layer_ids": [4]}
    return lambda device: build(**COMMON, **widths, dtype=dtype, device=device)


def sparse(dtype: torch.dtype, index_dtype: torch.dtype) -> Make:
    """Layer 3 has index values too, layer 4 index keys alone."""
    asked: dict[str, Any] = {"size": SIZE, "page_size": PAGE, "start_layer": 3, "end_layer": 5}
    asked |= {"head_num": HEADS, "head_dim": WIDTH, "idx_head_dim": INDEX, "dtype": dtype}
    asked |= {"dense_layer_ids": [0, 1, 2], "sparse_layer_ids": [3, 4], "index_dtype": index_dtype}
    asked |= {"disable_value_sparse_layer_ids": [4]}
    return lambda device: NPUSparseIndexLeaf(**asked, device=device)


LEAVES: dict[str, Make] = {
    **{f"heads in {dtype}": heads(dtype) for dtype in (BF16, FP16, FP32, FP8)},
    **{f"latents in {d}": latent("latent_split", d) for d in (BF16, FP16, FP32, FP8)},
    **{f"latents in nz, {d}": latent("latent_split_nz", d) for d in (BF16, FP16, FP32, FP8)},
    "latents beside plain keys": indexed(NPUDSALeaf, BF16, RANK + ROPE),
    "latents beside scaled keys": indexed(NPUScaledDSALeaf, BF16, RANK + ROPE),
    "index rows beside bf16": sparse(BF16, BF16),
    "index rows beside fp8": sparse(FP8, BF16),
    "packed latents": indexed(NPUScaledDSALeaf, FP8, RANK + 2 * ROPE + 4),
}


def rows(n: int, of_heads: int, width: int, seed: int, device: torch.device) -> Tensor:
    """Rows of bf16 with NaN and infinities among them, strided, the same on every device."""
    made = torch.randn(n, of_heads, 2 * width, generator=torch.Generator().manual_seed(seed)) * 100
    made[1::5, :, ::7], made[2::5, :, 2::9] = float("nan"), float("-inf")
    return made.to(BF16).to(device)[..., :width]


def write(leaf: Any, loc: Tensor, seed: int = 0) -> None:
    """Rows, and index keys with their scales, of every layer that has some."""
    n, device = loc.shape[0], leaf.k_buffer[0].device
    for layer_id in range(leaf.start_layer, leaf.end_layer):
        at = seed + 10 * layer_id
        if isinstance(leaf, NPUSparseIndexLeaf):
            _write_sparse(leaf, loc, layer_id, at)
        elif isinstance(leaf, NPUMHALeaf):
            k, v = rows(n, HEADS, WIDTH, at, device), rows(n, HEADS, V_WIDTH, at + 1, device)
            leaf.set_kv_buffer(Layer(layer_id), loc, k, v, 0.5 if leaf.dtype == FP8 else None)
        else:
            row = rows(n, 1, RANK + ROPE, at, device)
            leaf.set_kv_buffer(Layer(layer_id), loc, row, None)
        if isinstance(leaf, NPUDSALeaf | NPUScaledDSALeaf) and layer_id in leaf.indexer_layer_ids:
            keys = rows(n, 1, INDEX, at + 2, device)
            scaled = isinstance(leaf, NPUScaledDSALeaf)
            leaf.set_index_k_buffer(layer_id, loc, keys.to(FP8) if scaled else keys)
            if isinstance(leaf, NPUScaledDSALeaf):
                leaf.set_index_k_scale_buffer(layer_id, loc, torch.arange(n, device=device) + 0.5)


def _write_sparse(leaf: NPUSparseIndexLeaf, loc: Tensor, layer_id: int, at: int) -> None:
    n, device = loc.shape[0], leaf.k_buffer[0].device
    k, v = rows(n, HEADS, WIDTH, at, device), rows(n, HEADS, WIDTH, at + 1, device)
    keys, values = rows(n, 1, INDEX, at + 2, device), rows(n, 1, INDEX, at + 3, device)
    given = keys, values if layer_id == 3 else None
    leaf.set_fused_kv_index_buffer(Layer(layer_id), loc, k, v, *given)


def planes(leaf: Any) -> list[Tensor]:
    """The bytes of every plane, in host memory."""
    return [plane.cpu().contiguous().view(torch.uint8) for plane in device_planes(leaf)]


def device_planes(leaf: Any) -> list[Tensor]:
    """Every plane, where it is."""
    given = leaf.get_hicache_transfer_buffers()
    if isinstance(given, MLASplitBuffers):
        told = [given.k, given.v, given.index_k, given.index_scales]
        given = [plane for plane in told if plane is not None]
    held = list(given)
    if isinstance(leaf, NPUSparseIndexLeaf):
        for pool in (leaf.index_kv_pool, leaf.index_k_pool):
            held += [] if pool is None else pool.get_hicache_transfer_buffers()
    return held
