"""Leaves: small, odd geometries, few enough that a run takes seconds."""

from __future__ import annotations

import torch

from kvproto.protocols import MHALeafRequest, MLALeafRequest

from .spec import Spec

__all__ = ["ROW_SPECS"]


def _mha(
    name: str,
    page_size: int,
    layers: range,
    *,
    heads: int = 1,
    widths: tuple[int, int | None] = (16, None),
    dtype: torch.dtype = torch.bfloat16,
    pages: int = 6,
) -> Spec:
    request = MHALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        head_num=heads,
        head_dim=widths[0],
        v_head_dim=widths[1],
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
    )
    return Spec(f"mha-{name}", request)


def _mla(name: str, page_size: int, layers: range, dtype: torch.dtype) -> Spec:
    request = MLALeafRequest(
        size=6 * page_size,
        page_size=page_size,
        dtype=dtype,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
    )
    return Spec(f"mla-{name}", request)


ROW_SPECS: tuple[Spec, ...] = (
    _mha("bf16-page1", 1, range(2), heads=2, pages=13),
    _mha("bf16-page16-stage", 16, range(8, 12), widths=(32, 16)),
    _mha("fp16-page64-wide-v", 64, range(3, 5), heads=2, widths=(16, 32), dtype=torch.float16),
    _mha("bf16-page128-one-layer", 128, range(7, 8), widths=(8, 8), pages=2),
    _mha("bf16-page256", 256, range(1, 3), widths=(8, None), pages=2),
    _mha("fp32-page4", 4, range(2), heads=3, widths=(4, 4), dtype=torch.float32),
    _mha("fp8-e4m3fn-page16", 16, range(2, 4), heads=2, dtype=torch.float8_e4m3fn),
    _mha("fp8-e5m2-page1", 1, range(1, 2), widths=(16, 8), dtype=torch.float8_e5m2, pages=9),
    _mha("fp8-e4m3fnuz-page4", 4, range(2), dtype=torch.float8_e4m3fnuz),
    _mha("no-layers", 16, range(4, 4)),
    _mla("bf16-page1", 1, range(2), torch.bfloat16),
    _mla("bf16-page64-stage", 64, range(8, 11), torch.bfloat16),
    _mla("fp16-page16", 16, range(1, 3), torch.float16),
)
"""Leaves of K and V rows, and of latent rows."""
