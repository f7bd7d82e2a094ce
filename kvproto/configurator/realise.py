"""Requests that can be built: torch's dtypes in place of their names, on a device."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from .elements import PlannedDtype

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["realised"]

_Request = TypeVar("_Request", bound="DataclassInstance")


def realised(request: _Request, device: str) -> _Request:
    """The same request, nested ones too, with real dtypes and this device."""
    import torch

    changed: dict[str, Any] = {}
    for field in fields(request):
        value: Any = getattr(request, field.name)
        if field.name == "device":
            changed[field.name] = device
        elif isinstance(value, PlannedDtype):
            changed[field.name] = getattr(torch, value.name)
        elif is_dataclass(value) and not isinstance(value, type):
            changed[field.name] = realised(value, device)
    return replace(request, **changed)
