"""Element types that rows can be stored in, and geometry that can exist."""

from __future__ import annotations

import torch

from kvproto.protocols.layout import ElementType
from kvproto.protocols.traits import Fp8Variant

__all__ = ["ELEMENT_OF", "FP8_VARIANT_OF", "check_element", "check_geometry"]

ELEMENT_OF: dict[torch.dtype, ElementType] = {
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float32: "float32",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e4m3fnuz: "float8_e4m3fnuz",
    torch.float8_e5m2: "float8_e5m2",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}
"""The element types rows can be stored in."""

FP8_VARIANT_OF: dict[torch.dtype, Fp8Variant] = {
    torch.float8_e4m3fn: "e4m3fn",
    torch.float8_e4m3fnuz: "e4m3fnuz",
    torch.float8_e5m2: "e5m2",
    torch.float8_e5m2fnuz: "e5m2fnuz",
}
"""Those of them that are fp8."""


def check_element(dtype: torch.dtype) -> None:
    """:raises ValueError: for an element type rows cannot be stored in."""
    if dtype not in ELEMENT_OF:
        raise ValueError(f"dtype={dtype}: must be one of {', '.join(map(str, ELEMENT_OF))}")


def check_geometry(*, size: int, page_size: int, **counts: int) -> None:
    """:raises ValueError: naming the first keyword that makes a pool impossible."""
    for name, value in {"size": size, "page_size": page_size, **counts}.items():
        if value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    if size % page_size:
        raise ValueError(
            f"size={size}: not a multiple of page_size={page_size}, the last page would be short; "
            f"round down to {size // page_size * page_size}"
        )
