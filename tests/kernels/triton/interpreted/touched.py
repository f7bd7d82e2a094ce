# pyright: basic
"""Counts the bytes that interpreted kernels read and write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

__all__ = ["Touched", "some_programs", "touched"]


@dataclass
class Touched:
    """Bytes of global memory, once for every access that names them."""

    loaded: int = 0
    stored: int = 0


@contextmanager
def touched() -> Iterator[Touched]:
    """What kernels touch in this block; elements that a mask hides are not touched."""
    count, plain_load, plain_store = (
        Touched(),
        InterpreterBuilder.create_masked_load,
        InterpreterBuilder.create_masked_store,
    )

    def load(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        count.loaded += _bytes(ptrs, mask)
        return plain_load(self, ptrs, mask, *rest)

    def store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        count.stored += _bytes(ptrs, mask)
        return plain_store(self, ptrs, value, mask, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpreterBuilder, "create_masked_load", load)
        patch.setattr(InterpreterBuilder, "create_masked_store", store)
        yield count


@contextmanager
def some_programs(of: int, at_most: int) -> Iterator[float]:
    """Of a grid's first axis only a few programs run, evenly spread; yields how many times as many
    there are. What all programs touch alike can so be counted for grids too large to interpret.
    """
    chosen = sorted({round(i * (of - 1) / max(1, at_most - 1)) for i in range(at_most)})

    def sampled(*given: Any) -> Any:
        """`range`, but for the outermost loop over a grid."""
        frame = sys._getframe(1)
        if frame.f_code is GridExecutor.__call__.__code__ and "x" not in frame.f_locals:
            return chosen
        return range(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "range", sampled, raising=False)
        yield of / len(chosen)


def _bytes(ptrs: Any, mask: Any) -> int:
    width = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
    return int(np.broadcast_to(mask.data, ptrs.data.shape).sum()) * width
