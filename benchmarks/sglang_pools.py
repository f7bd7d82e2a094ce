# pyright: basic, reportMissingImports=false
"""sglang's real pools, by the keywords that ours take too; imported in `.interop-venv` only."""

from __future__ import annotations

from typing import Any

from sglang.srt.environ import envs
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool

from tests.interop import single_rank  # noqa: F401

__all__ = ["real_pool"]

_CLASSES = {"MHA": MHATokenToKVPool, "MLA": MLATokenToKVPool, "DSA": DSATokenToKVPool}


def real_pool(family: str, keywords: dict[str, Any]) -> Any:
    """The pool of a family; rows are moved by sglang's torch path, its kernel is for devices."""
    with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
        return _CLASSES[family](**keywords)
