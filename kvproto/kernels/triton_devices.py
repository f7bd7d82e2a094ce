"""Which devices Triton kernels serve; on every other one their torch twins do the work."""

from __future__ import annotations

import re
import warnings
from functools import cache

from torch import Tensor
from torch.nn import Parameter

from .on_host import is_watched

__all__ = ["MINIMUM_TRITON", "follow_platform", "served_by_triton", "twin_fallbacks"]

MINIMUM_TRITON = (3, 8)
"""The first release that compiles every kernel: older ones fail where a constant is a NamedTuple,
and other operations would work while these raise."""

_wanted = {"cuda"}
"""Device types, of CUDA and ROCm both unless a platform says otherwise."""

_fallbacks: list[int] = [0]


def follow_platform(device_type: str, supports_triton: bool) -> None:
    """Serve tensors of a device type with Triton kernels from now on, or with torch twins.

    Platforms call it with their `PlatformCapabilities` where they build. `cpu` is for tests,
    under `TRITON_INTERPRET=1`, and is reached only where the fast paths of host memory are not.
    """
    (_wanted.add if supports_triton else _wanted.discard)(device_type)


def served_by_triton(tensor: Tensor) -> bool:
    """Whether an operation on tensors of this one's device is to be done by its Triton kernel.

    Not what a tracer or a dispatch mode watches, nor subclasses: they see the twin's operations.
    """
    if tensor.device.type not in _wanted or is_watched():
        return False
    if type(tensor) not in (Tensor, Parameter):
        return False
    if _lacking() is None:
        return True
    _fallbacks[0] += 1
    return False


def twin_fallbacks() -> int:
    """How many operations twins have done so far because Triton was missing or too old."""
    return _fallbacks[0]


@cache
def _lacking() -> str | None:
    """What is wrong with the installed Triton, said in one warning; None where nothing is."""
    wanted, found = ".".join(map(str, MINIMUM_TRITON)), _installed()
    if found is not None and _version(found) >= MINIMUM_TRITON:
        return None
    lacking = f"triton {found} is installed" if found else "triton is not installed"
    warnings.warn(
        f"{lacking}, kernels need {wanted} or newer: torch operations do their work, slower; "
        "pip install 'kvproto[triton]'",
        RuntimeWarning,
        stacklevel=4,
    )
    return lacking


def _installed() -> str | None:
    """The version, asked of the module: distributions of it have several names."""
    try:
        import triton  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    return str(triton.__version__)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
