"""Scales that a checkpoint brings, and the fp8 of the device that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from .traits import Fp8Variant

    _Scale = TypeVar("_Scale", float, Tensor, float | Tensor)

__all__ = ["checkpoint_scale"]

_DOUBLED = {("e4m3fn", "e4m3fnuz"), ("e5m2", "e5m2fnuz")}
"""The exponent's bias is one more: a byte is half the number that it is in the first."""


def checkpoint_scale(
    scale: _Scale, stored: Fp8Variant, calibrated: Fp8Variant = "e4m3fn"
) -> _Scale:
    """The scale to write and to read with where rows are `stored`, of one found for `calibrated`.

    A checkpoint states the scale under which its keys or values fill the range of its own format.
    `e4m3fnuz` ends at 240 and `e4m3fn` at 448, so that the scale is doubled: numbers up to 448
    times the checkpoint's are then stored up to 224, and each in the bits that it would have there
    (-0.0, whose bits are those of NaN, as 0). A pool cannot do it by itself, since attention
    multiplies by the scale it was given: whoever loads a checkpoint does it once, and hands the
    result to the write door (`ScaledWrite`) and to the reader alike. `stored` is the pool's
    `PoolTraits.fp8_variant`. In rows that are no fp8 scales count for nothing; it is returned.

    :raises ValueError: for formats that are not the same up to their bias.
    """
    if stored in (calibrated, "none"):
        return scale
    if (calibrated, stored) in _DOUBLED:
        return scale * 2
    if (stored, calibrated) in _DOUBLED:
        return scale / 2
    raise ValueError(
        f"a scale found for {calibrated} says nothing of rows in {stored}: find one for those"
    )
