"""Copy pages between the device and the host tier."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from .page_ids import PageRuns
from .page_views import Items, PageViews

__all__ = ["copy_to_device", "copy_to_host", "host_runs"]


def copy_to_host(views: PageViews, runs: PageRuns) -> None:
    """Pages of the device to those of the tier, for each run.

    In host memory a page that is one run of bytes is moved as such, many in one call where numpy
    has one. Elsewhere copies go to the current stream.
    """
    if views.items is None:
        for device, host, n in runs:
            there = views.device[device : device + n]
            views.host[host : host + n].copy_(there, non_blocking=True)
        return
    source, target = views.items
    for host, pages in host_runs(runs):
        n = len(pages)
        if _ascend(pages):
            _copy(source, pages[0], target, host, n)
        elif target.is_dense:
            np.take(source.array, pages, out=target.array[host : host + n], mode="clip")
        else:
            for i, page in enumerate(pages):
                ctypes.memmove(target.at(host + i), source.at(page), source.nbytes)


def copy_to_device(views: PageViews, runs: PageRuns) -> None:
    """The other way."""
    if views.items is None:
        for device, host, n in runs:
            held = views.host[host : host + n]
            views.device[device : device + n].copy_(held, non_blocking=True)
        return
    target, source = views.items
    for host, pages in host_runs(runs):
        if _ascend(pages):
            _copy(source, host, target, pages[0], len(pages))
        else:
            target.array[pages] = source.array[host : host + len(pages)]


def host_runs(runs: PageRuns) -> Iterator[tuple[int, list[int]]]:
    """`(first host page, device pages)` of stretches in which host pages go up by one."""
    first, pages = 0, list[int]()
    for device, host, count in runs:
        if pages and host != first + len(pages):
            yield first, pages
            pages = []
        if not pages:
            first = host
        pages.extend(range(device, device + count))
    if pages:
        yield first, pages


def _copy(source: Items, first: int, target: Items, at: int, count: int) -> None:
    """Items `first ..` to `at ..`; those that lie together are one memmove."""
    if count == 1 or (source.is_dense and target.is_dense):
        ctypes.memmove(target.at(at), source.at(first), count * source.nbytes)
    else:
        target.array[at : at + count] = source.array[first : first + count]


def _ascend(pages: Sequence[int]) -> bool:
    return all(b - a == 1 for a, b in pairwise(pages))
