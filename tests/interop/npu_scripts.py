# pyright: basic, reportMissingImports=false
"""What scripts on NPU pools are made of: rows, slots, digests of planes, places of descriptors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.interop.side_by_side import digest

__all__ = [
    "COMMON",
    "at",
    "bytes_of",
    "descriptors",
    "door",
    "layers",
    "made_with",
    "rows",
    "unchanged_by",
]

COMMON = {"size": 512, "page_size": 128, "dtype": torch.bfloat16, "layer_num": 2}
COMMON |= {"start_layer": 3, "end_layer": 5, "device": "npu", "enable_memory_saver": False}


def made_with(make: Callable[..., Any], **environment: str) -> Callable[..., Any]:
    """A maker under environment variables, which sglang's pools read when they are made."""

    def under(**keywords: Any) -> Any:
        with _set(environment):
            return make(**keywords)

    return under


@contextmanager
def _set(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def rows(
    n: int, heads: int, width: int, seed: int, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """Rows of the same values for every pool."""
    made = torch.randn(n, heads, width, generator=torch.Generator().manual_seed(seed))
    return (made * 8).to(dtype).to("npu")


def at(*slots: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(slots, dtype=dtype, device="npu")


def layers(pool: Any) -> range:
    return range(pool.start_layer, pool.start_layer + pool.layer_num)


def bytes_of(planes: Iterable[torch.Tensor]) -> list[list[str]]:
    """A digest of every layer of every plane `[layers, ...]`."""
    return [digest(plane.cpu().unbind(0)) for plane in planes]


def door(shown: torch.Tensor, plane: torch.Tensor) -> object:
    """What a read door gives: its type, form, and where in its plane it begins."""
    begins = shown.data_ptr() - plane.data_ptr()
    return [str(shown.dtype), str(shown.device), list(shown.shape), list(shown.stride()), begins]


def descriptors(infos: tuple[list[int], ...], planes: Iterable[torch.Tensor]) -> object:
    """Pointers as `[plane, bytes from its start]`, in the order given; lengths, item lengths."""
    ptrs, *lens = infos
    spans = [(plane.data_ptr(), plane.nbytes) for plane in planes]
    return [[_place(ptr, spans) for ptr in ptrs], *([int(n) for n in each] for each in lens)]


def unchanged_by(write: Callable[[], None], planes: Iterable[torch.Tensor]) -> bool:
    """Whether a write finds its bytes there already."""
    tensors = list(planes)
    before = bytes_of(tensors)
    write()
    return bytes_of(tensors) == before


def _place(ptr: int, spans: list[tuple[int, int]]) -> list[int]:
    return next([i, ptr - start] for i, (start, n) in enumerate(spans) if start <= ptr < start + n)
