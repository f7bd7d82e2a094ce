"""Quantization by token."""

from __future__ import annotations

import torch
from torch import Tensor

from .documented import Arguments

__all__ = ["npu_dynamic_quant"]

_TARGETS = {
    1: torch.int8,
    24: torch.float8_e4m3fn,  # torch's number of the dtype; of Ascend 950, not of A2 and A3
}


def npu_dynamic_quant(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`round(x / scale)` and `scale = max|x| / max(dtype)`, float32, of each row of the last axis.

    Smoothing, experts and other modes are not emulated. A row of zeros becomes zeros.
    """
    given = Arguments("npu_dynamic_quant", input=input)
    given.dtypes(["input"], (torch.float16, torch.bfloat16))
    given.ranks(input=range(2, 9))
    plain = smooth_scales is None and group_index is None
    given.demand(plain, "smooth_scales or group_index", "given", "smoothing, not emulated")
    given.demand(quant_mode == "pertoken", "quant_mode", quant_mode, "'pertoken'; not emulated")
    given.demand(dst_type_max == 0.0, "dst_type_max", dst_type_max, "0.0; others not emulated")
    target = _TARGETS.get(1 if dst_type is None else dst_type)
    given.demand(target is not None, "dst_type", dst_type, "int8 and, on Ascend 950, e4m3fn")
    assert target is not None
    rows = input.to(torch.float32)
    largest = torch.iinfo(target).max if target == torch.int8 else torch.finfo(target).max
    scale = rows.abs().amax(-1) / largest
    scaled = torch.where(scale[..., None] > 0, rows / scale[..., None], 0.0)
    return (scaled.round() if target == torch.int8 else scaled).to(target), scale
