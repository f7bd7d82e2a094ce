"""Values in a few words: what a message may say of them without reading a tensor."""

from __future__ import annotations

from typing import cast

import torch

from kvproto.protocols._capability import CapabilityMeta, verdict_on

__all__ = ["describe", "describe_misfit", "dtype_name"]

# Exactly these: a subclass may bring a repr that reads a device.
_PRINTABLE = (bool, int, float, str)
_LONGEST = 40
_FEW = 4


def describe(value: object) -> str:
    """`int64[4] on cpu`, `int 3`, `(int 3, None)`, `a Pool`: one line, no foreign repr is run."""
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value.dtype)}{list(value.shape)} on {value.device}"
    if value is None or isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if type(value) in _PRINTABLE:
        return f"{type(value).__name__} {repr(value)[:_LONGEST]}"
    if isinstance(value, tuple):
        return _describe_tuple(cast("tuple[object, ...]", value))
    if isinstance(value, list):
        return f"a list of {len(cast('list[object]', value))}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}"


def describe_misfit(value: object, hint: object) -> str:
    """`describe`, and for a protocol the reasons why the value is not one."""
    reasons = verdict_on(value, hint) if isinstance(hint, CapabilityMeta) else []
    return describe(value) + (f" ({'; '.join(reasons)})" if reasons else "")


def dtype_name(dtype: torch.dtype) -> str:
    """`int64` for `torch.int64`."""
    return str(dtype).removeprefix("torch.")


def _describe_tuple(value: tuple[object, ...]) -> str:
    parts = [describe(item) for item in value[:_FEW]]
    return "(" + ", ".join(parts + ["..."] * (len(value) > _FEW)) + ")"
