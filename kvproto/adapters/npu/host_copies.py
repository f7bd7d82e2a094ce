"""Rows of planes on the host: read and written in one operation a plane, kept by layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion
from kvproto.reference.host_rows import HostRows, check_copied, check_meaning, meaning_of
from kvproto.reference.row_stores import TiledRows

__all__ = ["check_copy", "copy_to_host", "load_from_host"]


def copy_to_host(
    stores: Sequence[TiledRows], indices: Tensor, regions: Sequence[BufferRegion]
) -> HostRows:
    """The rows at `indices` (`[n]`) of all layers of every plane; waits for the device.

    `stores` are those of `Plane.all_layers`. A layer's rows are `[n, elements]`.
    """
    n = indices.shape[0]
    held = (store.gather(indices).cpu().view(n, *_by_layer(store)) for store in stores)
    rows = tuple(layer for plane in held for layer in plane.unbind(1))
    return HostRows(rows, n, meaning=meaning_of(regions))


def load_from_host(
    stores: Sequence[TiledRows], copy: HostRows, indices: Tensor, regions: Sequence[BufferRegion]
) -> None:
    """Write the copied rows to `indices`; the reserved slot is left alone.

    :raises ValueError: as `check_copy`; nothing is written.
    """
    check_copy(stores, copy, indices, regions)
    for store, rows in zip(stores, _by_plane(stores, copy), strict=True):
        store.store(indices, torch.stack(rows, 1).to(store.buffer.device))


def check_copy(
    stores: Sequence[TiledRows], copy: HostRows, indices: Tensor, regions: Sequence[BufferRegion]
) -> None:
    """Check that a copy fits, before any of it is written.

    :raises ValueError: for rows of another number, width, dtype or meaning.
    """
    wanted = sum(_by_layer(store)[0] for store in stores)
    if copy.count != indices.shape[0] or len(copy.rows) != wanted:
        raise ValueError(
            f"the copy holds {copy.count} rows of {len(copy.rows)} layers of planes, asked to load "
            f"{indices.shape[0]} rows into {wanted}; nothing was written"
        )
    for store, layers in zip(stores, _by_plane(stores, copy), strict=True):
        for rows in layers:
            check_copied(rows, (copy.count, _by_layer(store)[1]), store.buffer.dtype)
    check_meaning(copy, regions)


def _by_plane(stores: Sequence[TiledRows], copy: HostRows) -> list[list[Tensor]]:
    """The rows of each plane, by layer."""
    rest = iter(copy.rows)
    return [list(islice(rest, _by_layer(store)[0])) for store in stores]


def _by_layer(store: TiledRows) -> tuple[int, int]:
    """Layers of a plane, and elements of a row in one of them."""
    layers = store.tiles.row[0][0]
    return layers, store.tiles.row_elements // layers
