# pyright: basic, reportMissingImports=false
"""Factories for the kit: each builds one of sglang's real pools for a request.

    kvproto check tests.interop.factories:mha      (with the interpreter of .interop-venv)

Slots are moved by sglang's own torch path: its tiled kernel writes below the buffer when a
target is -1 (see `faults.py`), which would end the process that runs the laws.
"""

from __future__ import annotations

import torch
from sglang.srt.environ import envs
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from kvproto.protocols import Declined, LeafRequest, MHALeafRequest, MLALeafRequest
from tests.interop import single_rank  # noqa: F401

__all__ = ["mha", "mla", "swa"]


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


def swa(request: LeafRequest) -> SWAKVPool | Declined:
    """sglang's window pair over plain pools: every second layer is a window layer.

    The window space is as large as the full one, and every location is its own peer.
    """
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled", start_layer=0):
            return _window_pair(request)
    return Declined("SWAKVPool counts layers from 0 and is tried over plain NHD pools")


def _window_pair(request: MHALeafRequest) -> SWAKVPool:
    by_composite = ("layer_num", "start_layer", "end_layer")
    rows = {name: v for name, v in request.keywords().items() if name not in by_composite}
    layers = range(request.layer_num)
    with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
        pool = SWAKVPool(
            **rows,
            size_swa=request.size,
            full_attention_layer_ids=list(layers[::2]),
            swa_attention_layer_ids=list(layers[1::2]),
        )
    slots = request.size + request.page_size
    pool.register_mapping(torch.tensor([*range(slots), -1]))
    return pool
