"""Copy pages between the device and the host tier."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from torch import Tensor

from .page_ids import PageRuns

__all__ = ["copy_runs", "host_runs"]


def copy_runs(source: Tensor, target: Tensor, runs: PageRuns) -> None:
    """Pages `a .. a + n - 1` of `source` become `b ..` of `target`, for each run `(a, b, n)`.

    Both are `[pages, ...]`, alike but for how far pages are apart. In host memory a page that is
    one run of bytes is moved by address: a tensor operation costs more than a small page. Elsewhere
    copies go to the current stream.
    """
    if source.is_cpu and target.is_cpu and source[0].is_contiguous() and target[0].is_contiguous():
        _move_bytes(source, target, runs)
        return
    for a, b, n in runs:
        target[b : b + n].copy_(source[a : a + n], non_blocking=True)


def host_runs(runs: PageRuns) -> Iterator[tuple[int, list[int]]]:
    """`(first host page, device pages)` of stretches in which host pages go up by one."""
    first, pages = 0, list[int]()
    for device, host, count in runs:
        if pages and host != first + len(pages):
            yield first, pages
            pages = []
        if not pages:
            first = host
        pages = [*pages, *range(device, device + count)]
    if pages:
        yield first, pages


def _move_bytes(source: Tensor, target: Tensor, runs: PageRuns) -> None:
    whole = source[0].nbytes
    from_, from_step = source.data_ptr(), source.stride(0) * source.itemsize
    to, to_step = target.data_ptr(), target.stride(0) * target.itemsize
    together = whole == from_step == to_step
    for a, b, n in runs:
        if together:
            ctypes.memmove(to + b * whole, from_ + a * whole, n * whole)
            continue
        for i in range(n):
            ctypes.memmove(to + (b + i) * to_step, from_ + (a + i) * from_step, whole)
