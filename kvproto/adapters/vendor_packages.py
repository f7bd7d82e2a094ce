"""A vendor's Python packages: imported, or why they cannot be, in one line."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kvproto.protocols import Declined

__all__ = ["UNUSABLE", "first_line", "imported"]

UNUSABLE = (ImportError, OSError, RuntimeError, AttributeError)
"""What a package raises that is installed and cannot be used: its libraries are found when it is
imported, the driver answers when it is asked for devices, and it fits one version of torch."""


def imported(package: str) -> ModuleType | Declined:
    """The package, or why a platform cannot use it."""
    try:
        return import_module(package)
    except UNUSABLE as error:
        return Declined(f"{package} is installed and cannot be imported: {first_line(error)}")


def first_line(error: Exception) -> str:
    """What it says first, or else what it is: vendors' errors go on for a page."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
