"""Allocate persistent buffers where a memory saver can release and restore them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import cast

__all__ = ["KV_CACHE_TAG", "kv_cache_region"]

KV_CACHE_TAG = "kv_cache"
"""The tag under which engines pause and resume KV memory."""


def kv_cache_region(enable_memory_saver: bool) -> AbstractContextManager[object]:
    """The region in which KV buffers, and nothing else, are to be allocated.

    :raises ImportError: when the saver is asked for and `torch_memory_saver` is not installed.
    """
    if not enable_memory_saver:
        return nullcontext()
    try:
        saver = import_module("torch_memory_saver")
    except ImportError:
        raise ImportError(
            "enable_memory_saver=True needs the package torch_memory_saver: "
            "install it, or build the pool without"
        ) from None
    region = saver.torch_memory_saver.region(tag=KV_CACHE_TAG)
    return cast("AbstractContextManager[object]", region)
