"""Write several kinds of row to the same locations, as bytes of fp8."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .apart import apart
from .fp8 import Scale, checked_scale
from .locations import check_locations
from .store_row_sets import check_rows, store_row_sets
from .to_stored import to_stored
from .triton_devices import served_by_triton

__all__ = ["scale_on", "store_fp8_row_sets"]


def store_fp8_row_sets(
    loc: Tensor, sets: Sequence[tuple[Tensor, Tensor, Scale]], dtype: torch.dtype
) -> None:
    """`store_row_sets` of `to_stored(rows, dtype, scale)`, for every `(target, rows, scale)`.

    Targets are uint8, `dtype` is what their bytes mean; a Triton kernel quantises where it stores,
    rows of bfloat16, float16 and float32; rows in the storage of any target are copied first.

    :raises ValueError: for rows of another number or trailing shape, a target whose rows the kernel
        does not serve, or a scale that `to_fp8` refuses; nothing is written.
    :raises TypeError: for rows of a dtype that the kernel does not serve.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if not served_by_triton(loc):
        stored = [(target, to_stored(rows, dtype, scale)) for target, rows, scale in sets]
        store_row_sets(loc, stored)
        return
    from .triton.launch import run
    from .triton.store_fp8_row_sets import plan_store_fp8_row_sets

    for target, rows, _ in sets:
        check_locations(loc, target.shape[0])
        check_rows(loc.shape[0], target, rows, torch.uint8)
    scales = [scale_on(loc.device, scale) for _, _, scale in sets]
    targets = [target for target, _, _ in sets]
    given = [(target, apart(rows, *targets)) for target, rows, _ in sets]
    run(plan_store_fp8_row_sets(loc, given, scales, dtype))


def scale_on(device: torch.device, scale: Scale) -> Tensor | float | None:
    """A scale in host memory is a number to a kernel elsewhere."""
    if scale is None:
        return None
    checked = checked_scale(scale)
    if isinstance(checked, Tensor) and checked.device != device and checked.is_cpu:
        return float(checked)
    return checked
