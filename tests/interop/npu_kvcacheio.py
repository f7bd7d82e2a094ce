# pyright: basic, reportMissingImports=false
"""Imported for its effect: the one operator that sglang's host pools call on these devices.

It exchanges pages between planes `[layers, pages, ...]` on the device and buffers `[pages, layers,
...]` on the host.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

import torch

__all__: list[str] = []


class _Direction(Enum):
    H2D = 1
    D2H = 2


def _exchange(
    *,
    device_indices: torch.Tensor,
    host_indices: torch.Tensor,
    page_size: int,
    direction: _Direction,
    **planes: torch.Tensor | None,
) -> None:
    """Pages named by their first token, of every component that both sides have."""
    firsts = device_indices[::page_size].cpu(), host_indices[::page_size].cpu()
    pages = list(zip(*((each // page_size).tolist() for each in firsts), strict=True))
    for name in ("k", "v", "index_k", "index_k_scale"):
        device, host = planes.get(f"device_{name}"), planes.get(f"host_{name}")
        if device is None or host is None or not device.numel():
            continue
        if device.shape[0] != host.shape[1] or device[0, 0].nbytes != host[0, 0].nbytes:
            raise ValueError(f"{name}: {tuple(device.shape)} beside {tuple(host.shape)}")
        for there, here in pages:
            if direction is _Direction.D2H:
                _copy(host[here], device[:, there])
            else:
                _copy(device[:, there], host[here])


def _copy(to: torch.Tensor, of: torch.Tensor) -> None:
    to.view(torch.uint8).copy_(of.view(torch.uint8).view(to.view(torch.uint8).shape))


kvcacheio: Any = ModuleType("sgl_kernel_npu.kvcacheio")
kvcacheio.TransferDirection, kvcacheio.transfer_kv_dim_exchange = _Direction, _exchange
sys.modules.setdefault("sgl_kernel_npu", ModuleType("sgl_kernel_npu"))
sys.modules[kvcacheio.__name__] = kvcacheio
