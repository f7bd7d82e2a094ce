"""Memory formats: everything is ND here."""

from __future__ import annotations

from torch import Tensor

__all__ = ["get_npu_format", "npu_format_cast"]

_ND = 2


def npu_format_cast(
    input: Tensor,
    acl_format: int,
    *,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    """`input` itself for ND; a private format cannot be emulated, its order in memory is unknown.

    A cache in NZ order is not one: it is an ND tensor of the shape of NZ.
    """
    if acl_format != _ND:
        raise RuntimeError(
            f"npu_format_cast: acl_format is {acl_format}; only 2 (ND) can be emulated: a cache "
            "in NZ order is an ND tensor of the shape of NZ"
        )
    return input


def get_npu_format(input: Tensor) -> int:
    return _ND
