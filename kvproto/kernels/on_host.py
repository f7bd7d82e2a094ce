"""Whether bytes can be moved without torch, whose dispatch costs more than a few rows do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.compiler import is_compiling
from torch.nn import Parameter
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

if TYPE_CHECKING:
    import numpy as np
else:
    try:
        import numpy as np
    except ModuleNotFoundError:  # torch does without it too
        np = None

__all__ = ["has_bytes", "has_numpy", "is_watched", "np", "on_host"]

has_numpy: bool = np is not None


def is_watched() -> bool:
    """Whether operations are traced by `torch.compile`, or seen by a dispatch mode.

    Such a mode makes fake tensors, or a graph, or looks for operations that wait for a device: it
    must see what a device would be given.
    """
    return is_compiling() or is_in_torch_dispatch_mode()


def on_host(*tensors: Tensor) -> bool:
    """Whether all lie dense in this process's memory, and nobody watches what torch does to them.

    False for subclasses of `Tensor`, for what a functorch transform wraps, and where numpy is
    missing: then torch does the work.
    """
    if is_compiling() or is_in_torch_dispatch_mode() or not has_numpy:
        return False
    for tensor in tensors:
        if not (type(tensor) is Tensor and tensor.is_cpu and tensor.is_contiguous()):
            return False
        if is_functorch_wrapped_tensor(tensor):
            return False
    return True


def has_bytes(tensor: Tensor) -> bool:
    """Whether its elements are in this process's memory, at any strides.

    Not those of fake or other subclasses, which have an address of nothing or of something else.
    """
    if type(tensor) not in (Tensor, Parameter) or not tensor.is_cpu:
        return False
    return tensor.layout is torch.strided and not is_functorch_wrapped_tensor(tensor)
