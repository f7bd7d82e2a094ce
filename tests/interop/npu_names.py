# pyright: basic, reportMissingImports=false
"""Imported for its effect: names of torch_npu that sglang and transformers import, uncalled here.

The stand-in has the operators that pools call; these refuse to be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

torch_npu: Any = import_module("torch_npu")

__all__: list[str] = []


def _module(name: str) -> None:
    whole = f"{torch_npu.__name__}.{name}"
    sys.modules[whole] = ModuleType(whole)
    parent, _, own = whole.rpartition(".")
    setattr(sys.modules[parent], own, sys.modules[whole])


def _refuses(name: str) -> None:
    def call(*_: Any, **__: Any) -> None:
        raise NotImplementedError(f"torch_npu.{name} is not emulated")

    setattr(torch_npu, name, call)


_module("multiprocessing")  # sglang.srt.utils.patch_torch
_module("multiprocessing.reductions")
_refuses("npu_fusion_attention")  # transformers.integrations.npu_flash_attention
