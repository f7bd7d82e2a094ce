"""Small leaves under block scales, and rows to write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from kvproto.reference import FP4Leaf, MXFP8Leaf, NVFP4Leaf

E4M3 = torch.float8_e4m3fn
E2M1 = torch.float4_e2m1fn_x2
HEADS: dict[str, Any] = {
    "size": 64,
    "page_size": 32,
    "head_num": 2,
    "head_dim": 64,
    "v_head_dim": 32,
    "layer_num": 2,
    "start_layer": 3,
    "end_layer": 5,
    "device": "cpu",
}
EIGHT: dict[str, Any] = HEADS | {"dtype": E4M3}
FOUR: dict[str, Any] = HEADS | {"dtype": E2M1}
LATENT: dict[str, Any] = {
    "size": 8,
    "page_size": 4,
    "dtype": E2M1,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "layer_num": 2,
    "start_layer": 3,
    "end_layer": 5,
    "device": "cpu",
}
LAYER: Any = SimpleNamespace(layer_id=4)


def mxfp8(**changes: Any) -> MXFP8Leaf:
    return MXFP8Leaf(**(EIGHT | changes))


def fp4(**changes: Any) -> FP4Leaf:
    return FP4Leaf(**(FOUR | changes))


def nvfp4(**changes: Any) -> NVFP4Leaf:
    return NVFP4Leaf(**(FOUR | changes))


def rows(n: int, width: int, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2, width, generator=made).to(torch.bfloat16)


def put(leaf: Any, loc: list[int], seed: int = 0, **options: Any) -> tuple[Tensor, Tensor]:
    k, v = rows(len(loc), leaf.head_dim, seed), rows(len(loc), leaf.v_head_dim, seed + 1)
    leaf.set_kv_buffer(LAYER, torch.tensor(loc), k, v, **options)
    return k, v


def asked(**changes: Any) -> dict[str, Any]:
    keywords = {k: v for k, v in HEADS.items() if k != "end_layer"}
    return keywords | {"dtype": E4M3, "quant_scheme": "mxfp8"} | changes
