"""Facts about single tensors; the only place where debug mode reads values of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ._describe import describe

__all__ = ["Fault", "matches", "shape_text", "too_large", "too_small"]


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


def too_large(argument: str, value: torch.Tensor, stop: int | None) -> Fault | None:
    """The fault when a location is `stop` or more; on a device this waits for it.

    Negative locations are legal: they mean that nothing is written or read.
    """
    if stop is None or value.numel() == 0 or not _is_readable(value):
        return None
    high = int(value.max())
    if high < stop:
        return None
    return Fault(argument, f"locations below {stop}", f"{high} in {describe(value)}")


def too_small(argument: str, value: torch.Tensor, low: int) -> Fault | None:
    """The fault when a translated location is below `low`; on a device this waits for it."""
    if value.numel() == 0 or not _is_readable(value) or int(value.min()) >= low:
        return None
    return Fault(
        argument, f"locations of {low} or more", f"{int(value.min())} in {describe(value)}"
    )


def _is_readable(value: torch.Tensor) -> bool:
    """False for fake and meta tensors, while a graph is captured, and while torch is observed."""
    if type(value) is not torch.Tensor or value.device.type == "meta":
        return False
    if is_in_torch_dispatch_mode():
        return False
    return not (value.is_cuda and torch.cuda.is_current_stream_capturing())
