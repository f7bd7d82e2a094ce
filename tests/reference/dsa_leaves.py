"""Small DSA leaves, and what their tests look at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.reference import DSALeaf
from tests.kernels.latent_oracle import index_page

GEOMETRY: dict[str, Any] = {
    "size": 128,
    "page_size": 64,
    "dtype": torch.bfloat16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
    "layer_num": 2,
    "device": "cpu",
    "enable_memory_saver": False,
}

PACKED: dict[str, Any] = {"dtype": torch.float8_e4m3fn, "kv_cache_dim": 656}

FP8 = torch.float8_e4m3fn


def make(**changes: Any) -> DSALeaf:
    return DSALeaf(**(GEOMETRY | changes))


def keys_of(values: list[int]) -> tuple[Tensor, Tensor]:
    """Key bytes all `value % 251`, scale `float(value)`."""
    keys = torch.tensor([v % 251 for v in values], dtype=torch.uint8).view(-1, 1).expand(-1, 128)
    return keys.contiguous().view(FP8), torch.tensor([float(v) for v in values])


def filled(**changes: Any) -> DSALeaf:
    leaf = make(**changes)
    loc = torch.arange(1, 192)
    for layer_id in range(leaf.start_layer, leaf.end_layer):
        if not leaf.skip_topk_layers[layer_id - leaf.start_layer]:
            leaf.set_index_k_scale_buffer(layer_id, loc, *keys_of(loc.tolist()))
    return leaf


def pages_with(tokens: dict[int, int]) -> list[bytes]:
    def of_page(page: int) -> dict[int, tuple[bytes, float]]:
        own = {s - 64 * page: v for s, v in tokens.items() if s // 64 == page}
        return {offset: (bytes([v % 251]) * 128, float(v)) for offset, v in own.items()}

    return [index_page(of_page(page)) for page in range(3)]


def index_bytes(leaf: DSALeaf, layer_id: int = 0) -> list[bytes]:
    return [page.numpy().tobytes() for page in leaf.get_index_k_with_scale_buffer(layer_id)]
