"""Pages of several layers that one strided copy takes, in host memory at both ends."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .page_ids import PageRuns
from .page_views import PageViews

__all__ = ["LayerStack", "layer_stacks"]

Array = np.ndarray[Any, np.dtype[np.integer[Any]]]

_SHORT = 8192
"""Bytes of a piece below which memcpy, that numpy calls, is slower than torch's vector loop."""

_LARGE = 512 * 1024
"""Bytes of a copy from which on that loop has made up for what a call of torch costs more."""


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Both ends as tensors `[pages, layers, ...]`, the device's in the order of its addresses.

    `order` is that order, None where it is that of the layers: torch has no strides downwards.
    """

    device: Tensor
    host: Tensor
    order: Tensor | None

    @staticmethod
    def of(first: PageViews, count: int, steps: tuple[int, int]) -> _Vectors:
        """Over `count` layers, of which the first is given."""
        step, host = steps[0], _tensor(first.host, count, steps[1], 0)
        if step > 0 or count == 1:
            return _Vectors(_tensor(first.device, count, step, 0), host, None)
        downwards = torch.arange(count - 1, -1, -1, device="cpu")
        return _Vectors(_tensor(first.device, count, -step, (count - 1) * step), host, downwards)

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Of one end to the other, in which either is the order that the other is not."""
        if self.order is None:
            target.copy_(source)
        else:
            torch.index_select(source, 1, self.order, out=target)


@dataclass(frozen=True, slots=True)
class LayerStack:
    """Layers that lie as far from each other as the next two do, at either end, up or down.

    Each end is `[pages, layers, ...]`, an alias that does not keep the memory alive. `vectors` are
    for runs of `vector_pages` on, and None where pieces are long.
    """

    device: Array
    host: Array
    vectors: _Vectors | None
    vector_pages: int

    @staticmethod
    def of(views: Sequence[PageViews]) -> LayerStack:
        """Of views that `layer_stacks` found together."""
        first, count = views[0], len(views)
        steps = (_step(first, views[1]) if count > 1 else None) or (0, 0)
        ends = _array(first.device, count, steps[0]), _array(first.host, count, steps[1])
        distinct = count == 1 or (steps[0] != 0 and steps[1] > 0)
        by_vector = distinct and first.piece_bytes < _SHORT
        vectors = _Vectors.of(first, count, steps) if by_vector else None
        return LayerStack(*ends, vectors, -(-_LARGE // max(1, count * first.page_bytes)))

    def to_host(self, runs: PageRuns) -> None:
        """Pages of the device to those of the tier, for each run; done on return."""
        by = self.vectors
        for device, host, n in runs:
            if by is not None and n >= self.vector_pages:
                by.copy(by.host[host : host + n], by.device[device : device + n])
            else:
                self.host[host : host + n] = self.device[device : device + n]

    def to_device(self, runs: PageRuns) -> None:
        """The other way."""
        by = self.vectors
        for device, host, n in runs:
            if by is not None and n >= self.vector_pages:
                by.copy(by.device[device : device + n], by.host[host : host + n])
            else:
                self.device[device : device + n] = self.host[host : host + n]


def layer_stacks(views: Sequence[PageViews]) -> list[LayerStack]:
    """Views, all in host memory, in as few stacks as their distances allow."""
    return [LayerStack.of(together) for together in _together(views)]


def _together(views: Sequence[PageViews]) -> Iterator[list[PageViews]]:
    stack: list[PageViews] = []
    for view in views:
        if stack:
            step = _step(stack[-1], view)
            if step is None or (len(stack) > 1 and step != _step(stack[0], stack[1])):
                yield stack
                stack = []
        stack.append(view)
    if stack:
        yield stack


def _step(one: PageViews, other: PageViews) -> tuple[int, int] | None:
    """Bytes from one to the other, device first; None for views of other shapes."""
    if one.geometry != other.geometry:
        return None
    return (
        other.device.data_ptr() - one.device.data_ptr(),
        other.host.data_ptr() - one.host.data_ptr(),
    )


def _array(end: Tensor, count: int, step: int) -> Array:
    shape, strides = _axes(end, count, step)
    return np.lib.stride_tricks.as_strided(end.numpy(), shape, [n * end.itemsize for n in strides])


def _tensor(end: Tensor, count: int, step: int, start: int) -> Tensor:
    """Opened anew, over all layers: torch minds where the memory of each ends."""
    shape, strides = _axes(end, count, step)
    words = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    held = (ctypes.c_uint8 * (words * end.itemsize)).from_address(end.data_ptr() + start)
    return torch.frombuffer(held, dtype=end.dtype).as_strided(shape, strides)


def _axes(end: Tensor, count: int, step: int) -> tuple[list[int], list[int]]:
    """Shape and strides in elements, of `count` layers after the pages; without axes of one."""
    pages, *inner = zip(end.shape, end.stride(), strict=True)
    axes = [pages, *(axis for axis in [(count, step // end.itemsize), *inner] if axis[0] > 1)]
    return [extent for extent, _ in axes], [stride for _, stride in axes]
