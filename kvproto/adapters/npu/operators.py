"""What stores rows: the vendor's operators on an Ascend device, torch's and numpy's in host memory.

The operators are called as their schemas in torch_npu 2.14 and their documented ranges say; they
were not run on hardware here. A write has a fixed shape and reads nothing back to the host: rows to
be dropped, those past the last slot among them, are told to an operator as slots below 0, which it
skips, or become zeros for slot 0 where it takes no such slots.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kvproto.kernels import to_stored
from kvproto.kernels.fp8 import Scale
from kvproto.reference.row_stores import Given, store_both

from .facts import DEVICE_TYPE
from .locations import bounded
from .planes import Order, PlaneLayer

__all__ = ["BY_SLOT", "Rows", "signed", "store_pair", "store_rows"]

BY_SLOT = (torch.float16, torch.bfloat16, torch.int8)
"""Element types that operators on paged caches take on A2 and A3."""

_CACHE_MODE: dict[Order, str] = {"nd": "Norm", "nz": "PA_NZ"}
"""Left out, the operator means `PA_NZ`."""


class Rows(NamedTuple):
    """Rows `[n, heads, width]` of any float dtype and strides, under a scale, for a layer."""

    layer: PlaneLayer
    given: Tensor
    scale: Scale = None


def store_pair(loc: Tensor, keys: Rows, values: Rows, dtype: torch.dtype) -> None:
    """Put the rows of two planes at the same `[n]` locations; those of 0 and below are dropped.

    `dtype` is what both planes mean, which lie in the same order; fp8 divides by the scale,
    saturates and is stored as its bytes. The rows are not modified.

    On a device rows past the last are dropped too.

    :raises IndexError: in host memory, for a location past the last row; nothing is written.
    :raises ValueError: for locations in host memory of a plane on a device.
    """
    if not _on_device(keys.layer):
        k, v = (Given(rows.layer.store, rows.given, rows.scale) for rows in (keys, values))
        store_both(loc, k, v, dtype)
        return
    loc = _within(loc, keys.layer)
    k_rows, v_rows = (to_stored(rows.given, dtype, rows.scale) for rows in (keys, values))
    if signed(k_rows).dtype in BY_SLOT:
        _scatter(loc, (keys.layer, k_rows), (values.layer, v_rows))
    else:
        _store(loc, keys.layer, k_rows)
        _store(loc, values.layer, v_rows)


def store_rows(loc: Tensor, layer: PlaneLayer, rows: Tensor) -> None:
    """Put rows of a plane, as they are stored, at `[n]` locations; otherwise as `store_pair`.

    Rows in NZ order that come alone, or are of float32, go by torch's operations on a device too.
    """
    if _on_device(layer):
        _store(_within(loc, layer), layer, rows)
    else:
        layer.store.store(loc, rows)


def _store(loc: Tensor, layer: PlaneLayer, rows: Tensor) -> None:
    if layer.order == "nz":
        layer.store.store(loc, rows)
    elif loc.shape[0]:
        _update(layer.cache, loc, rows)


def _scatter(
    loc: Tensor, keys: tuple[PlaneLayer, Tensor], values: tuple[PlaneLayer, Tensor]
) -> None:
    """Rows of two planes by one operator, which skips slots below 0."""
    if not loc.shape[0]:
        return
    k_rows, v_rows = (signed(rows).contiguous() for _, rows in (keys, values))
    k_cache, v_cache = (signed(layer.cache) for layer, _ in (keys, values))
    torch.ops.npu.npu_scatter_pa_kv_cache(
        k_rows,
        v_rows,
        k_cache,
        v_cache,
        torch.where(loc > 0, loc, -1).to(torch.int32),
        cache_mode=_CACHE_MODE[keys[0].order],
    )


def _update(cache: Tensor, loc: Tensor, rows: Tensor) -> None:
    """Rows to `[pages, page, heads, width]`; what is dropped is zeros for slot 0, which is zero."""
    heads, width = cache.shape[-2:]
    kept = torch.where((loc > 0).view(-1, 1, 1), rows, torch.zeros_like(rows[:1]))
    torch.ops.npu.npu_scatter_nd_update_(
        signed(cache).view(-1, heads, width),
        loc.clamp(min=0).view(-1, 1),
        signed(kept.contiguous()),
    )


def _within(loc: Tensor, layer: PlaneLayer) -> Tensor:
    return bounded(loc, layer.slots, layer.cache.device)


def _on_device(layer: PlaneLayer) -> bool:
    return layer.cache.device.type == DEVICE_TYPE


def signed(stored: Tensor) -> Tensor:
    """The same bytes as int8 where they are uint8, which no operator takes."""
    return stored.view(torch.int8) if stored.dtype == torch.uint8 else stored
