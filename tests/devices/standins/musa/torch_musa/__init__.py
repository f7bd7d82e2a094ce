"""A stand-in for torch_musa on an emulated device, which is torch's own operators and no others."""

from __future__ import annotations

import torch

if torch._C._get_privateuse1_backend_name() != "musa":
    raise ImportError(
        "this torch_musa is a stand-in for an emulated musa: tests/devices/emulate.py"
    )
