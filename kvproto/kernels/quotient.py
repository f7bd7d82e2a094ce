"""Divide by one number as IEEE 754 says, on every device."""

from __future__ import annotations

from torch import Tensor

__all__ = ["quotient"]


def quotient(values: Tensor, divisor: float | Tensor) -> Tensor:
    """float32 `values / divisor`, the nearest float32 of each quotient.

    A GPU's `/` of torch takes a divisor in host memory, a number or a tensor, as its reciprocal,
    which is rounded, and multiplies: the product may be the float32 beside the quotient. There it
    is made a tensor of the device, filled and not copied: nothing waits.
    """
    if values.is_cpu or (isinstance(divisor, Tensor) and not divisor.is_cpu):
        return values / divisor
    return values / values.new_full((), float(divisor))
