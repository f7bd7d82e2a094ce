"""Leaves of keys alone, and of nothing."""

from __future__ import annotations

import torch

from kvproto.protocols import KeyOnlyLeafRequest, NoOpLeafRequest

from .spec import Spec

__all__ = ["BARE_SPECS"]


def _keys(name: str, page_size: int, layers: range, dtype: torch.dtype, heads: int = 1) -> Spec:
    request = KeyOnlyLeafRequest(
        size=5 * page_size,
        page_size=page_size,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        head_num=heads,
        head_dim=16,
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
    )
    return Spec(f"keys-{name}", request)


def _nothing(name: str, page_size: int, layers: range, dtype: torch.dtype, v_width: int) -> Spec:
    request = NoOpLeafRequest(
        size=6 * page_size,
        page_size=page_size,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        head_num=2,
        head_dim=16,
        v_head_dim=v_width,
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
    )
    return Spec(f"noop-{name}", request)


BARE_SPECS: tuple[Spec, ...] = (
    _keys("bf16-page1", 1, range(2), torch.bfloat16, heads=2),
    _keys("fp16-page64-stage", 64, range(8, 11), torch.float16),
    _keys("fp8-e4m3fn-page16", 16, range(1, 3), torch.float8_e4m3fn),
    _keys("bf16-page128", 128, range(3, 4), torch.bfloat16),
    _keys("no-layers", 16, range(4, 4), torch.bfloat16),
    _nothing("bf16-page16-stage", 16, range(4, 7), torch.bfloat16, 8),
    _nothing("fp8-e4m3fn-page1", 1, range(2), torch.float8_e4m3fn, 16),
)
"""Neither is a `KVLeaf`."""
