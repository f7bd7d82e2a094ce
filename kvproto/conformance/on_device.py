"""A run on a device: geometries that ask for it, and the kit's hands and eyes there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import torch

from kvproto._bad_input import BadInput

from .factory import Factory
from .kit_tensors import KitTensors
from .memory import DeviceMemory, addressed
from .place import HOST, device_of, on_host
from .specs import Spec
from .specs.models import ModelRequest

__all__ = ["device_named", "looking_at", "spec_on"]


def device_named(name: str) -> torch.device:
    """The device, with its index, on which a tensor can be made.

    :raises BadInput: where none can; the vendor's module has to be imported first.
    """
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).strip().split("\n", 1)[0]
        raise BadInput(f"--device {name}: no tensor can be made there: {why}") from None


def spec_on(spec: Spec, device: torch.device) -> Spec:
    """The geometry, asked for on that device."""
    return spec if device == HOST else replace(spec, request=_on(spec.request, str(device)))


def _on(request: Any, device: str) -> Any:
    """A request, and those inside it."""
    if not is_dataclass(request) or isinstance(request, type | ModelRequest):
        return request
    inside = {f.name: _on(getattr(request, f.name), device) for f in fields(request) if f.init}
    if "device" in inside:
        inside["device"] = device
    return replace(cast("Any", request), **inside)


@contextmanager
def looking_at(request: object, factory: Factory) -> Generator[Factory]:
    """The factory, with the kit's tensors and its reader of bytes where its subjects are."""
    if on_host(request):
        yield factory
        return
    device = device_of(request)
    memory = DeviceMemory(device)
    with addressed(memory), KitTensors(device):
        yield memory.recording(factory)
