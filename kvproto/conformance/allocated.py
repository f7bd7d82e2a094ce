"""What a pool really took: the storages behind its tensors, counted without asking it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, FP4Workspace, supports

from .oracle import regions_of
from .storage import tensors_of

__all__ = ["Allocation", "allocation_of", "declared_bytes", "stray_region"]

_COUNTERS = (torch.int32, torch.int64, torch.uint64, torch.bool)
"""Element types of tables beside the rows: addresses, maps, flags."""


class Allocation:
    """The storages of some tensors, each once however many tensors are views of it."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._storages = {
            # What identifies a storage on every device; on `meta` none has an address.
            each._cdata: each  # pyright: ignore[reportPrivateUsage]
            for tensor in tensors
            for each in [tensor.untyped_storage()]
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(storage.nbytes() for storage in self._storages.values())

    @property
    def devices(self) -> set[str]:
        """The types of the devices they are on."""
        return {storage.device.type for storage in self._storages.values()}

    def __or__(self, other: Allocation) -> Allocation:
        """Those of both."""
        both = Allocation(())
        both._storages = self._storages | other._storages
        return both

    def holds(self, first: int, end: int) -> bool:
        """Do the addresses from `first` up to `end` lie in one of them?"""
        return any(
            start <= first and end <= start + storage.nbytes()
            for storage in self._storages.values()
            for start in [storage.data_ptr()]
        )


def allocation_of(leaf: object, least: int) -> Allocation:
    """Of every tensor with as many elements or more, wherever the leaf keeps it; no tables."""
    return Allocation(
        tensor
        for tensor in tensors_of(leaf)
        if tensor.numel() >= least and tensor.dtype not in _COUNTERS
    )


def declared_bytes(leaf: object) -> int | None:
    """Bytes of the leaf's regions and of its workspace; None where it declares no region."""
    regions = regions_of(leaf)
    if not regions:
        return None
    workspace = 0
    if supports(leaf, FP4Workspace):
        workspace = Allocation(leaf.get_dequant_workspace()).nbytes
    return sum(region.nbytes for region in regions) + workspace


def stray_region(regions: Iterable[BufferRegion], taken: Allocation) -> str:
    """The first region whose bytes are not all in what was taken, in words; "" for none."""
    for region in regions:
        span = (region.page_count - 1) * region.page_stride + region.bytes_per_page
        for base in region.bases:
            if not taken.holds(base, base + span):
                names = "/".join(field.name for field in region.fields)
                return f"{span} bytes of {names} at {base:#x}"
    return ""
