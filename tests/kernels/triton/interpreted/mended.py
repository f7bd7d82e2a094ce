# pyright: basic
"""Triton's interpreter as `rounding.as_compiled` mends it, and where that is not enough.

Version 3.9 reads the NaN of a format without infinities as a number past its largest, and makes
numbers of a boolean that is repeated, which no mask may be.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

from tests.interop.rounding import FP8, as_compiled

__all__ = ["mended", "wrong_reads"]


@contextmanager
def mended() -> Generator[None]:
    """Kernels that are interpreted in this block compute what compiled ones do."""
    with as_compiled(), np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        rounding = interpreter._convert_float

        def convert(data: Any, source: Any, target: Any, mode: Any) -> Any:
            if source in FP8 and target == tl.float32:
                return _read(data, FP8[source]).view(np.uint32)
            return rounding(data, source, target, mode)

        patch.setattr(interpreter, "_convert_float", convert)
        splat = interpreter.InterpreterBuilder.create_splat
        patch.setattr(interpreter.InterpreterBuilder, "create_splat", _keeping_bool(splat))
        yield


def wrong_reads() -> int:
    """Of the 256 bytes, how many the interpreter itself reads as another e4m3fn than torch."""
    every = np.arange(256, dtype=np.uint8)
    got = interpreter._convert_float(every, tl.float8e4nv, tl.float32, None).view(np.float32)
    return int((~np.isclose(got, _read(every, torch.float8_e4m3fn), equal_nan=True)).sum())


def _read(data: Any, dtype: torch.dtype) -> Any:
    dense = torch.from_numpy(np.ascontiguousarray(data)).view(dtype)
    return dense.to(torch.float32).numpy().reshape(data.shape)


def _keeping_bool(splat: Any) -> Any:
    def kept(self: Any, ret_ty: Any, arg: Any) -> Any:
        made = splat(self, ret_ty, arg)
        if arg.data.dtype == np.bool_:  # a comparison, whatever type it is said to have
            made.data = made.data.astype(np.bool_)
        return made

    return kept
