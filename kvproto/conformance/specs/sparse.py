"""Leaves with index rows: dense layers among sparse ones, with index values and without."""

from __future__ import annotations

import torch

from kvproto.protocols import SparseIndexLeafRequest

from .spec import Spec

__all__ = ["SPARSE_SPECS"]


def _sparse(
    name: str,
    page_size: int,
    stage: range,
    sparse: tuple[int, ...],
    *,
    keys_only: tuple[int, ...] = (),
    model: int = 8,
    heads: int = 2,
    widths: tuple[int, int] = (16, 8),
    dtypes: tuple[torch.dtype, torch.dtype | None] = (torch.bfloat16, None),
    pages: int = 4,
) -> Spec:
    request = SparseIndexLeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=dtypes[0],
        quant_scheme="fp8_scaled" if dtypes[0].itemsize == 1 else "none",
        head_num=heads,
        head_dim=widths[0],
        idx_head_dim=widths[1],
        dense_layer_ids=tuple(i for i in range(model) if i not in sparse),
        sparse_layer_ids=sparse,
        disable_value_sparse_layer_ids=keys_only,
        index_dtype=dtypes[1],
        layer_num=len(stage),
        start_layer=stage.start,
        device="cpu",
    )
    return Spec(f"sparse-{name}", request)


_FP8_INDEX = torch.float16, torch.float8_e4m3fn
_LATE = (2, 3, 4, 5, 6, 7)

SPARSE_SPECS: tuple[Spec, ...] = (
    _sparse("bf16-page1", 1, range(4), _LATE, pages=13),
    _sparse("bf16-page128-keys", 128, range(1, 4), _LATE, keys_only=_LATE, pages=3),
    _sparse("bf16-page16-mixed", 16, range(3, 7), (3, 5, 6, 7), keys_only=(5, 7), heads=3),
    _sparse("fp8-index-bf16", 16, range(2, 4), _LATE, dtypes=(torch.float8_e4m3fn, torch.bfloat16)),
    _sparse(
        "fp16-index-fp8",
        4,
        range(2, 5),
        _LATE,
        keys_only=(3,),
        dtypes=_FP8_INDEX,
    ),
    _sparse("page4-dense-stage", 4, range(2), _LATE, keys_only=_LATE),
    _sparse("no-layers", 16, range(4, 4), _LATE),
)
"""A pipeline stage may hold any part of the model's layers, none of them sparse included."""
