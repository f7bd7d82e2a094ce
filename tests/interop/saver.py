# pyright: basic, reportMissingImports=false
"""Imported for its effect: sglang looks for the memory saver when it is asked, not when imported.

The package itself needs CUDA. The kit puts a stand-in in its place while a law runs.
"""

from __future__ import annotations

import sys
from typing import Any

from sglang.srt.utils import torch_memory_saver_adapter as adapter

__all__: list[str] = []


class _Current:
    """The saver's object that is importable now."""

    def region(self, tag: str, enable_cpu_backup: bool = False) -> Any:
        package = sys.modules["torch_memory_saver"]
        return package.torch_memory_saver.region(tag=tag, enable_cpu_backup=enable_cpu_backup)


adapter._memory_saver, adapter.import_error = _Current(), None
