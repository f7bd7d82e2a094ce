"""Facts about single tensors; the only place where debug mode reads values of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ._describe import describe

__all__ = ["Fault", "matches", "out_of_range", "shape_text"]


class Fault(NamedTuple):
    """One broken clause: which argument, what was expected, what came."""

    argument: str
    expected: str
    got: str


def matches(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Same rank, and the same extent wherever one is wanted."""
    return len(shape) == len(wanted) and all(
        w is None or w == s for w, s in zip(wanted, shape, strict=True)
    )


def shape_text(wanted: Sequence[int | None]) -> str:
    """`[4, *, 128]`: a star where any extent will do."""
    return "[" + ", ".join("*" if extent is None else str(extent) for extent in wanted) + "]"


def out_of_range(argument: str, value: torch.Tensor, stop: int | None) -> Fault | None:
    """The fault when a value lies outside [-1, stop); on a device this waits for it."""
    if value.numel() == 0 or not _is_readable(value):
        return None
    low, high = (int(bound) for bound in torch.aminmax(value))
    if low >= -1 and (stop is None or high < stop):
        return None
    wrong = low if low < -1 else high
    expected = f"locations in [-1, {stop})" if stop is not None else "locations of -1 or more"
    return Fault(argument, expected, f"{wrong} in {describe(value)}")


def _is_readable(value: torch.Tensor) -> bool:
    """False for fake and meta tensors, while a graph is captured, and while torch is observed."""
    if type(value) is not torch.Tensor or value.device.type == "meta":
        return False
    if is_in_torch_dispatch_mode():
        return False
    return not (value.is_cuda and torch.cuda.is_current_stream_capturing())
