"""Whether bytes can be moved without torch, whose dispatch costs more than a few rows do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.compiler import is_compiling
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

if TYPE_CHECKING:
    import numpy as np
else:
    try:
        import numpy as np
    except ModuleNotFoundError:  # torch does without it too
        np = None

__all__ = ["has_numpy", "np", "on_host"]

has_numpy: bool = np is not None


def on_host(*tensors: Tensor) -> bool:
    """Whether all lie dense in this process's memory, and nobody traces or watches torch.

    False under `torch.compile`, in a dispatch mode (fake tensors, checks that nothing waits for a
    device), for subclasses of `Tensor`, and where numpy is missing: then torch does the work.
    """
    if is_compiling() or not has_numpy or is_in_torch_dispatch_mode():
        return False
    for tensor in tensors:
        if type(tensor) is not Tensor or not tensor.is_cpu or not tensor.is_contiguous():
            return False
    return True
