"""Small leaves of the ROCm platform over host memory, and the numbers of its fp8 by definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.adapters.rocm.platform import RocmPlatform, gfx942_on_cpu, gfx950_on_cpu
from kvproto.protocols import Declined, KVLeaf, LeafRequest, MHALeafRequest, MLALeafRequest
from tests.kernels.test_fp8 import decode

__all__ = ["FN", "FNUZ", "PLATFORMS", "built", "declined", "heads", "latents", "numbers", "on_each"]

FN, FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz
PLATFORMS = {FNUZ: gfx942_on_cpu(), FN: gfx950_on_cpu()}
"""By the numbers that they store."""

on_each = pytest.mark.parametrize("dtype", PLATFORMS, ids=["gfx942", "gfx950"])


def numbers(dtype: torch.dtype) -> Tensor:
    """What each of the 256 bytes means, float32, from the format's definition."""
    return torch.tensor([decode(byte, dtype) for byte in range(256)], dtype=torch.float32)


def heads(**changes: Any) -> MHALeafRequest:
    """Two layers of two heads, in pages of 32; fp8 where the dtype is."""
    asked: dict[str, Any] = {
        "size": 96,
        "page_size": 32,
        "dtype": torch.bfloat16,
        "head_num": 2,
        "head_dim": 256,
        "layer_num": 2,
        "start_layer": 4,
        "device": "cpu",
    }
    return MHALeafRequest(**_with_scheme(asked | changes))


def latents(**changes: Any) -> MLALeafRequest:
    """Two layers of latents of 192 and rope of 64, in pages of 32."""
    asked: dict[str, Any] = {
        "size": 96,
        "page_size": 32,
        "dtype": torch.bfloat16,
        "kv_lora_rank": 192,
        "qk_rope_head_dim": 64,
        "layer_num": 2,
        "device": "cpu",
    }
    return MLALeafRequest(**_with_scheme(asked | changes))


def _with_scheme(asked: dict[str, Any]) -> dict[str, Any]:
    return {"quant_scheme": "fp8_scaled" if asked["dtype"].itemsize == 1 else "none"} | asked


def built(platform: RocmPlatform, request: LeafRequest) -> Any:
    """The leaf, with every door that it has."""
    leaf = platform.build_leaf(request)
    assert isinstance(leaf, KVLeaf), leaf
    return leaf


def declined(platform: RocmPlatform, request: LeafRequest) -> str:
    """Why there is no leaf."""
    answer = platform.build_leaf(request)
    assert isinstance(answer, Declined)
    return answer.reason
