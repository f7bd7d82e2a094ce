"""Leaves of K and V rows in other layouts than one row after the other."""

from __future__ import annotations

import torch

from kvproto.protocols import Layout, MHALeafRequest

from .spec import Spec

__all__ = ["LAYOUT_SPECS"]


def _rows(
    layout: Layout,
    name: str,
    page_size: int,
    layers: range,
    *,
    heads: int = 2,
    widths: tuple[int, int] = (16, 8),
    dtype: torch.dtype = torch.bfloat16,
    pages: int = 4,
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
        layout=layout,
    )
    return Spec(f"{layout.replace('_', '-')}-{name}", request)


LAYOUT_SPECS: tuple[Spec, ...] = (
    _rows("hnd", "bf16-page1", 1, range(2), pages=9),
    _rows("hnd", "bf16-page16-stage", 16, range(8, 10), heads=3),
    _rows("hnd", "fp16-page128", 128, range(1, 2), dtype=torch.float16, pages=2),
    _rows("hnd", "fp8-e4m3fn-page64", 64, range(2, 4), dtype=torch.float8_e4m3fn, pages=3),
    _rows("hnd", "no-layers", 16, range(4, 4)),
    _rows("paged_nhd", "bf16-page1", 1, range(2), pages=9),
    _rows("paged_nhd", "bf16-page128-stage", 128, range(3, 5), pages=2),
    _rows("paged_nhd", "fp8-e5m2-page16", 16, range(1, 3), dtype=torch.float8_e5m2),
    _rows("paged_nhd", "no-layers", 16, range(4, 4)),
    _rows("vectorized_5d", "bf16-page16-stage", 16, range(8, 10), heads=3, widths=(16, 32)),
    _rows(
        "vectorized_5d",
        "fp16-page128",
        128,
        range(1, 2),
        widths=(16, 16),
        dtype=torch.float16,
        pages=2,
    ),
    _rows(
        "vectorized_5d",
        "fp8-e4m3fnuz-page64",
        64,
        range(2, 4),
        widths=(32, 16),
        dtype=torch.float8_e4m3fnuz,
        pages=3,
    ),
    _rows("vectorized_5d", "fp32-page4", 4, range(1, 3), widths=(8, 4), dtype=torch.float32),
    _rows("page_envelope", "bf16-page1", 1, range(2), pages=9),
    _rows("page_envelope", "bf16-page16-stage", 16, range(8, 11), heads=1, widths=(24, 16)),
    _rows("page_envelope", "fp16-page64-padded", 64, range(1, 2), heads=1, dtype=torch.float16),
    _rows("page_envelope", "fp8-e4m3fn-page4", 4, range(2, 4), dtype=torch.float8_e4m3fn),
    _rows("page_envelope", "no-layers", 16, range(4, 4)),
)
"""By head, by page, 16 bytes at a time, and all layers together.

A page of `vectorized_5d` is whole vectors; some entries of envelopes end in padding.
"""
