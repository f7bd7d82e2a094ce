"""Rows of some locations, kept on the host while a request is retracted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import rows_from_host, rows_to_host
from kvproto.protocols import BufferRegion, Field

from .row_stores import RowStore, SlotRows

__all__ = [
    "HostRows",
    "check_copied",
    "check_meaning",
    "check_rows",
    "copy_rows_to_host",
    "load_rows_from_host",
    "meaning_of",
]


@dataclass(frozen=True, slots=True)
class HostRows:
    """`rows[i]` are the stored rows, `[n, ...]` on the CPU, of the pool's i-th buffer.

    `index_keys` are the bytes of keys and scales, per layer that has some. `meaning` is what
    `meaning_of` makes of the pool's regions: bytes of two fp8 formats look alike.
    """

    rows: tuple[Tensor, ...]
    count: int
    index_keys: tuple[tuple[Tensor, Tensor], ...] = ()
    meaning: tuple[str, ...] = ()


def copy_rows_to_host(stores: Sequence[RowStore], indices: Tensor) -> HostRows:
    """Copy the rows at `indices` (`[n]`, int32 or int64) of every buffer; waits for the device."""
    buffers = [store.buffer for store in stores if isinstance(store, SlotRows)]
    by_slot = iter(rows_to_host(buffers, indices))
    rows = tuple(
        [
            next(by_slot) if isinstance(store, SlotRows) else store.gather(indices).cpu()
            for store in stores
        ]
    )
    return HostRows(rows, indices.shape[0])


def load_rows_from_host(stores: Sequence[RowStore], copy: HostRows, indices: Tensor) -> None:
    """Write the copied rows to `indices`; the reserved slot is left alone.

    :raises ValueError: as `check_rows`; nothing is written.
    """
    check_rows(stores, copy, indices)
    buffers: list[Tensor] = []
    by_slot: list[Tensor] = []
    for store, rows in zip(stores, copy.rows, strict=True):
        if isinstance(store, SlotRows):
            buffers.append(store.buffer)
            by_slot.append(rows)
        else:
            store.store(indices, rows.to(store.buffer.device))
    rows_from_host(buffers, indices, by_slot)


def check_rows(stores: Sequence[RowStore], copy: HostRows, indices: Tensor) -> None:
    """Check that a copy fits, before any of it is written.

    :raises ValueError: for another number of locations or buffers, or rows of another shape or
        dtype.
    """
    if copy.count != indices.shape[0] or len(copy.rows) != len(stores):
        raise ValueError(
            f"the copy holds {copy.count} rows of {len(copy.rows)} buffers, asked to load "
            f"{indices.shape[0]} rows into {len(stores)}"
        )
    for store, rows in zip(stores, copy.rows, strict=True):
        check_copied(rows, (copy.count, *store.row_shape), store.buffer.dtype)


def meaning_of(regions: Sequence[BufferRegion]) -> tuple[str, ...]:
    """What the bytes of a token mean in each kind of row, in order: `key float8_e4m3fn` and so on.

    Of several fields of a row in the order of their bytes.
    """
    return tuple(
        " ".join(f"{field.name} {field.element}" for field in _in_row(region)) for region in regions
    )


def _in_row(region: BufferRegion) -> list[Field]:
    return sorted(region.fields, key=lambda field: field.offset)


def check_meaning(copy: HostRows, regions: Sequence[BufferRegion]) -> None:
    """Check that the bytes of a copy mean what those of the pool with these regions mean.

    :raises ValueError: where they do not.
    """
    meaning = meaning_of(regions)
    if copy.meaning != meaning:
        raise ValueError(
            f"the copy holds {_told(copy.meaning)}, must be {_told(meaning)} to be loaded here; "
            "nothing was written"
        )


def _told(meaning: tuple[str, ...]) -> str:
    return ", ".join(meaning) or "rows of no declared element"


def check_copied(held: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Check one tensor of a copy.

    :raises ValueError: where it is not of this shape and dtype.
    """
    if held.shape != shape or held.dtype != dtype:
        raise ValueError(
            f"the copy holds {held.dtype} {tuple(held.shape)}, must be {dtype} {shape} to be "
            "loaded here; nothing was written"
        )
