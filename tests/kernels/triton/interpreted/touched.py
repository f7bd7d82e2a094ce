# pyright: basic
"""Counts the bytes that interpreted kernels read and write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from triton.runtime.interpreter import InterpreterBuilder

__all__ = ["Touched", "touched"]


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


def _bytes(ptrs: Any, mask: Any) -> int:
    width = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
    return int(np.broadcast_to(mask.data, ptrs.data.shape).sum()) * width
