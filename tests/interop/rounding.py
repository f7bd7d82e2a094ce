# pyright: basic, reportMissingImports=false
"""Triton's interpreter with the rounding that its compilers have.

Version 3.9 loses the carry of a mantissa that is rounded up, in 2 to 6 of 100 casts to fp8
(triton-lang/triton#8322), and cuts float32 to bf16. Inside `as_compiled` such casts are torch's
own: nearest, ties to even.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

__all__ = ["as_compiled", "wrong_casts"]

FP8 = {
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5: torch.float8_e5m2,
    tl.float8e5b16: torch.float8_e5m2fnuz,
}


@contextmanager
def as_compiled() -> Iterator[None]:
    """Kernels that are interpreted in this block round as compiled ones do."""
    plain = interpreter._convert_float

    def convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        # What a kernel computes is no operation of torch's to whoever looks at those.
        with torch._C.DisableTorchFunction():
            if source == tl.float32 and target in FP8:
                return _rounded(data, FP8[target])
            if source == tl.float32 and target == tl.bfloat16:
                return _as_bf16(data)
        return plain(data, source, target, rounding)

    interpreter._convert_float = convert
    builder = interpreter.InterpreterBuilder
    loads, stores = builder.create_masked_load, builder.create_masked_store
    builder.create_masked_load = _with_boolean_mask(loads, 0)
    builder.create_masked_store = _with_boolean_mask(stores, 1)
    try:
        yield
    finally:
        interpreter._convert_float = plain
        builder.create_masked_load, builder.create_masked_store = loads, stores


def _with_boolean_mask(access: Any, place: int) -> Any:
    """A comparison of scalars, made as wide as a row, is no longer boolean in the interpreter."""

    def masked(self: Any, ptrs: Any, *rest: Any) -> Any:
        rest[place].data = rest[place].data.astype(np.bool_)
        return access(self, ptrs, *rest)

    return masked


def wrong_casts() -> int:
    """Of 4096 numbers, how many the interpreter itself casts to another e4m3fn than torch."""
    values = np.linspace(0.01, 400, 4096, dtype=np.float32)
    nearest = interpreter._ir.ROUNDING_MODE.RTNE
    got = interpreter._convert_float(values, tl.float32, tl.float8e4nv, nearest)
    return int((got.view(np.uint8) != _rounded(values, torch.float8_e4m3fn)).sum())


def _as_bf16(values: Any) -> Any:
    """The 16 bits that the interpreter keeps of a bf16."""
    dense = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    bits = dense.to(torch.bfloat16).view(torch.int16).numpy()
    return bits.view(np.uint16).reshape(values.shape)


def _rounded(values: Any, dtype: torch.dtype) -> Any:
    dense = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    return dense.to(dtype).view(torch.uint8).numpy().reshape(values.shape)
