"""Where the buffers are that a request asks for."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import torch

__all__ = ["HOST", "device_of", "on_host"]

HOST = torch.device("cpu")


def device_of(request: object) -> torch.device:
    """The device that the request names, or else the first request in it that names one."""
    named: object = getattr(request, "device", None)
    if isinstance(named, str | torch.device):
        return torch.device(named)
    if not is_dataclass(request):
        return HOST
    inside = (getattr(request, field.name) for field in fields(request))
    return next((device_of(each) for each in inside if is_dataclass(each)), HOST)


def on_host(request: object) -> bool:
    """Are they in this process's own memory, or nowhere?"""
    return device_of(request).type in ("cpu", "meta")
