"""The block formats as torch's own tests make them, loaded without what else those tests need."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any
from unittest import mock

__all__ = ["torch_formats"]

_TESTING = "torch.testing._internal"


def torch_formats() -> Any:
    """`torch.testing._internal.common_quantized`; only the flags it imports are stood in for."""
    flags = ModuleType(f"{_TESTING}.common_utils")
    for name in ("TEST_WITH_TSAN", "IS_PPC", "IS_MACOS", "IS_WINDOWS", "IS_ARM64"):
        setattr(flags, name, False)
    with mock.patch.dict(sys.modules, {flags.__name__: flags}):
        return importlib.import_module(f"{_TESTING}.common_quantized")
