# pyright: basic, reportMissingImports=false
"""sglang's NPU pool of keys and values, and ours, through the writers of either and every door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.hardware_backend.npu.memory_pool_npu import NPUMHATokenToKVPool

from kvproto.adapters.npu.mha import NPUMHALeaf
from tests.interop.npu_scripts import (
    COMMON,
    at,
    bytes_of,
    descriptors,
    door,
    layers,
    made_with,
    rows,
    unchanged_by,
)
from tests.interop.side_by_side import Observe, Scripts, layer

__all__ = ["MHA", "MHA_BY_SLOT", "MHA_FIA"]

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
HEADS = COMMON | {"head_num": 2, "head_dim": 64, "v_head_dim": 32}
BY_SLOT = made_with(NPUMHATokenToKVPool, SGLANG_NPU_USE_SCATTER_PA_KV_CACHE="1")
FIA = made_with(NPUMHATokenToKVPool, ASCEND_USE_FIA="1")

MHA = Scripts(NPUMHATokenToKVPool, NPUMHALeaf, **HEADS)
"""Written by `_npu_reshape_and_cache`."""
MHA_BY_SLOT = Scripts(BY_SLOT, NPUMHALeaf, **HEADS)
"""Written by `npu_scatter_pa_kv_cache`."""
MHA_FIA = Scripts(FIA, NPUMHALeaf, **HEADS)
"""Layers shown as fused inference attention takes them; written by `npu_scatter_nd_update_`."""
ALL = (MHA, MHA_BY_SLOT, MHA_FIA)


def write(pool: Any, *slots: int, index: torch.dtype = torch.int64, seed: int = 0) -> None:
    """Rows of every layer, given in the pool's own dtype, or in bf16 to pools of fp8."""
    given = BF16 if pool.dtype == torch.float8_e4m3fn else pool.dtype
    for i in layers(pool):
        k = rows(len(slots), pool.head_num, pool.head_dim, 2 * i + seed, given)
        v = rows(len(slots), pool.head_num, pool.v_head_dim, 2 * i + 1 + seed, given)
        pool.set_kv_buffer(layer(i), at(*slots, dtype=index), k, v)


def planes(pool: Any) -> tuple[torch.Tensor, torch.Tensor]:
    keys, values = pool.get_hicache_transfer_buffers()
    return keys, values


def on_all(name: str, **changes: object) -> Callable[[Observe], Observe]:
    def add(script: Observe) -> Observe:
        for scripts in ALL:
            scripts.on(name, **changes)(script)
        return script

    return add


def written(pool: Any) -> object:
    for index in (torch.int32, torch.int64):
        write(pool, 128, 255, 256, 639, index=index)
        write(pool, 511, 300, index=index, seed=9)
    return bytes_of(planes(pool))


for _dtype in (BF16, FP16):
    on_all(f"rows written in {_dtype}", dtype=_dtype)(written)
MHA_FIA.on("rows written in torch.float32", dtype=FP32)(written)
on_all("rows written, pages of 16", page_size=16, size=640)(written)
on_all("rows written, heads of one width", v_head_dim=None)(written)


@on_all("a layer named beside the layer")
def overridden(pool: Any) -> object:
    k, v = rows(2, 2, 64, 0), rows(2, 2, 32, 1)
    pool.set_kv_buffer(layer(3), at(200, 131), k, v, layer_id_override=4)
    return bytes_of(planes(pool))


@on_all("rows given in another dtype, under a scale")
def scaled(pool: Any) -> object:
    k, v = rows(2, 2, 64, 0, FP32), rows(2, 2, 32, 1, FP32)
    pool.set_kv_buffer(layer(3), at(200, 131), k, v)
    return bytes_of(planes(pool))


@on_all("descriptors")
def buffers(pool: Any) -> object:
    return descriptors(pool.get_contiguous_buf_infos(), planes(pool))


@on_all("sizes")
def sizes(pool: Any) -> object:
    shapes = [[list(plane.shape), str(plane.dtype)] for plane in planes(pool)]
    return [*(int(n) for n in pool.get_kv_size_bytes()), float(pool.mem_usage), shapes]


@MHA.on("read doors")
@MHA_BY_SLOT.on("read doors")
def read(pool: Any) -> object:
    k, v = planes(pool)
    shown = [(pool.get_key_buffer(i), pool.get_value_buffer(i)) for i in layers(pool)]
    both = pool.get_kv_buffer(4)
    return [[door(a, k), door(b, v)] for a, b in (*shown, both)]


@MHA_FIA.on("read doors")
def read_by_fia(pool: Any) -> object:
    """Ours has a door of its own for it, beside those by page."""
    ask = getattr(pool, "get_fia_kv_buffer", pool.get_kv_buffer)
    k, v = planes(pool)
    return [[door(a, k), door(b, v)] for a, b in map(ask, layers(pool))]


@on_all("rows copied to the host and back", v_head_dim=64)
def on_the_host(pool: Any) -> object:
    """sglang's copy takes values to be as wide as keys."""
    write(pool, 128, 255, 256)
    copy = pool.get_cpu_copy(at(255, 128, 256))
    pool.load_cpu_copy(copy, at(300, 600, 129))
    return bytes_of(planes(pool))


@on_all("rows moved")
def moved(pool: Any) -> object:
    write(pool, 128, 255)
    pool.move_kv_cache(at(300, 600), at(128, 255))
    return unchanged_by(lambda: write(pool, 300, 600), planes(pool))


@on_all("fp8 rows written", dtype=torch.float8_e4m3fn)
def written_in_fp8(pool: Any) -> object:
    """Whether the first key and value are stored as torch casts them."""
    write(pool, 128)
    given = rows(1, 2, 64, 6), rows(1, 2, 32, 7)
    stored = [plane[0].view(torch.uint8).view(640, -1)[128] for plane in planes(pool)]
    cast = [each.to(torch.float8_e4m3fn).view(torch.uint8).flatten() for each in given]
    return [one.equal(other) for one, other in zip(stored, cast, strict=True)]
