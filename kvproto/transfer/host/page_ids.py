"""Which pages of the host tier are free, and which pages a copy is of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

__all__ = ["HostPageIds", "PageIds", "PageRuns", "check_device_pages", "page_runs"]

PageIds = Tensor | Sequence[int]
"""`[n]` page ids, int32 or int64; those on a device are waited for."""

PageRuns = Sequence[tuple[int, int, int]]
"""`(first device page, first host page, count)` of stretches in which both go up by one."""


class HostPageIds:
    """Pages `0 .. count - 1`, each free or owned; the page freed last is owned first.

    Calls may come from several threads.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """All pages are free."""
        with self._lock:
            self._free = torch.arange(self.count - 1, -1, -1, device="cpu")
            self._owned = torch.zeros(self.count, dtype=torch.bool, device="cpu")
            self._available = self.count

    @property
    def available(self) -> int:
        """Pages that can be taken."""
        return self._available

    def take(self, n: int) -> Tensor | None:
        """Own `n` pages, int64 `[n]`; None, with nothing changed, where fewer are free.

        :raises ValueError: for less than none.
        """
        if n < 0:
            raise ValueError(f"{n} host pages: must be at least 0")
        with self._lock:
            if n > self._available:
                return None
            left = self._available - n
            pages = self._free[left : self._available].flip(0)
            self._owned[pages] = True
            self._available = left
            return pages

    def release(self, pages: PageIds) -> None:
        """Take pages back, in any order.

        :raises ValueError: for pages that are free, or named twice; nothing changes.
        :raises IndexError: for pages that are not there; nothing changes.
        """
        with self._lock:
            ids = self._checked(pages)
            self._owned[ids] = False
            self._free[self._available : self._available + len(ids)] = ids.flip(0)
            self._available += len(ids)

    def owned(self, pages: PageIds) -> Tensor:
        """The ids, int64 in host memory; raises as `release`."""
        with self._lock:
            return self._checked(pages)

    def _checked(self, pages: PageIds) -> Tensor:
        ids = _as_ids(pages, "host")
        _check_range(ids, 0, self.count - 1, "host page")
        _check_distinct(ids, self.count, "host page")
        owned = self._owned[ids]
        if not bool(owned.all()):
            first = int(ids[~owned][0])
            raise ValueError(f"host page {first} is free: it was never taken, or freed before")
        return ids


def check_device_pages(pages: PageIds, page_count: int) -> Tensor:
    """The ids, int64 in host memory: usable pages, none of them twice.

    :raises ValueError: for a page that is named twice, or page 0, which is reserved.
    :raises IndexError: for pages that are not there.
    """
    ids = _as_ids(pages, "device")
    if bool((ids == 0).any()):
        raise ValueError("device page 0 is reserved: no token is in it, and nothing may be")
    _check_range(ids, 1, page_count - 1, "device page")
    _check_distinct(ids, page_count, "device page")
    return ids


def page_runs(device_pages: Tensor, host_pages: Tensor) -> PageRuns:
    """The lists in as few runs as there are.

    :raises ValueError: for lists of different lengths.
    """
    n = len(device_pages)
    if len(host_pages) != n:
        raise ValueError(f"{n} device pages and {len(host_pages)} host pages: must be as many")
    if not n:
        return []
    steps = torch.stack((device_pages, host_pages)).diff()
    starts = [0, *(i + 1 for i in _listed((steps != 1).any(0).nonzero().flatten()))]
    firsts = zip(_listed(device_pages[starts]), _listed(host_pages[starts]), strict=True)
    ends = [*starts[1:], n]
    return [(d, h, end - at) for (d, h), at, end in zip(firsts, starts, ends, strict=True)]


def _listed(ids: Tensor) -> list[int]:
    return cast("list[int]", ids.tolist())  # pyright: ignore[reportUnknownMemberType]


def _as_ids(pages: PageIds, where: str) -> Tensor:
    ids = torch.as_tensor(pages, device="cpu")
    if not ids.numel():
        return torch.empty(0, dtype=torch.int64, device="cpu")
    if ids.dim() != 1 or ids.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"{where} pages are {ids.dtype} {tuple(ids.shape)}, must be int32 or int64 [n]"
        )
    return ids.to(torch.int64)


def _check_range(ids: Tensor, first: int, last: int, what: str) -> None:
    outside = (ids < first) | (ids > last)
    if bool(outside.any()):
        raise IndexError(f"{what} {int(ids[outside][0])} is outside {first}..{last}")


def _check_distinct(ids: Tensor, count: int, what: str) -> None:
    times = torch.bincount(ids, minlength=1)
    if int(times.max()) > 1:
        raise ValueError(f"{what} {int(times.argmax())} is named twice")
