# pyright: basic, reportMissingImports=false
"""Factories for the kit: each builds one of sglang's real pools for a request.

    kvproto check tests.interop.factories:mha      (with the interpreter of .interop-venv)

Slots are moved by sglang's own torch path: its tiled kernel writes below the buffer when a
target is -1 (see `faults.py`), which would end the process that runs the laws.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.environ import envs
from sglang.srt.mem_cache.memory_pool import (
    MHATokenToKVPool,
    MLATokenToKVPool,
)
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
)
from tests.interop import single_rank  # noqa: F401
from tests.interop.allocators import real_pair, real_single

__all__ = ["mha", "mla", "slots", "swa"]


def _import_the_engine() -> None:
    """A first write imports most of sglang: done here, since the kit runs laws in children."""
    pool = MHATokenToKVPool(
        size=1,
        page_size=1,
        dtype=torch.float32,
        head_num=1,
        head_dim=1,
        layer_num=1,
        device="cpu",
        enable_memory_saver=False,
    )
    row = torch.ones(1, 1, 1)
    pool.set_kv_buffer(None, torch.tensor([1]), row, row, layer_id_override=0)


_import_the_engine()


def mha(request: LeafRequest) -> MHATokenToKVPool | Declined:
    """sglang's plain pool of key and value rows."""
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
                return MHATokenToKVPool(**request.keywords())
    return Declined("MHATokenToKVPool holds K and V rows in NHD layout")


def mla(request: LeafRequest) -> MLATokenToKVPool | Declined:
    """sglang's plain pool of latent rows."""
    match request:
        case MLALeafRequest(layout="latent_rows", quant_scheme="none" | "fp8_scaled"):
            return MLATokenToKVPool(**request.keywords())
    return Declined("MLATokenToKVPool holds latent rows")


def swa(request: Any) -> SWAKVPool | Declined:
    """sglang's window pair, with the leaves that the request names."""
    match request:
        case SWAPoolRequest(
            full=MHALeafRequest(quant_scheme="none" | "fp8_scaled") as full,
            window=MHALeafRequest(quant_scheme="none" | "fp8_scaled") as window,
        ):
            return _window_pair(request, full, window)
    return Declined("SWAKVPool is a window pair, tried over plain pools of K and V rows")


def _window_pair(
    request: SWAPoolRequest, full: MHALeafRequest, window: MHALeafRequest
) -> SWAKVPool:
    heads = {
        "head_num": full.head_num,
        "head_dim": full.head_dim,
        "v_head_dim": full.value_head_dim,
        "swa_head_num": window.head_num,
        "swa_head_dim": window.head_dim,
        "swa_v_head_dim": window.value_head_dim,
    }
    with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
        return SWAKVPool(
            size=full.size,
            size_swa=window.size,
            page_size=full.page_size,
            dtype=full.dtype,
            device="cpu",
            full_attention_layer_ids=list(request.full_attention_layer_ids),
            swa_attention_layer_ids=list(request.swa_attention_layer_ids),
            **heads,
        )


def slots(request: Any) -> Any:
    """sglang's allocators of one space and of a pair."""
    match request:
        case AllocatorRequest():
            return real_single(request.size, request.page_size, request.need_sort)
        case SWAAllocatorRequest():
            return real_pair(request.size, request.size_swa, request.page_size, request.need_sort)
    return Declined("token, paged and paired allocators")
