# pyright: basic, reportMissingImports=false
"""sglang's NPU pool of latent rows in two planes, and ours, in both orders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from sglang.srt.hardware_backend.npu.memory_pool_npu import NPUMLATokenToKVPool

from kvproto.adapters.npu.mla import NPUMLALeaf
from tests.interop import single_rank  # noqa: F401
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

__all__ = ["MLA", "MLA_NZ"]

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
LATENT = COMMON | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
NZ = made_with(NPUMLATokenToKVPool, SGLANG_USE_FIA_NZ="1")

MLA = Scripts(NPUMLATokenToKVPool, NPUMLALeaf, **LATENT)
MLA_NZ = Scripts(NZ, partial(NPUMLALeaf, kv_cache_layout="latent_split_nz"), **LATENT)
BOTH = (MLA, MLA_NZ)


def on_both(name: str, **changes: object) -> Callable[[Observe], Observe]:
    def add(script: Observe) -> Observe:
        for scripts in BOTH:
            scripts.on(name, **changes)(script)
        return script

    return add


def native(pool: Any) -> Any:
    """Its planes, as either gives them to a host tier."""
    theirs = isinstance(pool, NPUMLATokenToKVPool)
    return pool._mla_native_buffers() if theirs else pool.get_hicache_transfer_buffers()


def planes(pool: Any) -> list[torch.Tensor]:
    given = native(pool)
    return [given.k, given.v]


def write(pool: Any, *slots: int, index: torch.dtype = torch.int64, seed: int = 0) -> None:
    given = BF16 if pool.dtype == torch.float8_e4m3fn else pool.dtype
    for i in layers(pool):
        row = rows(len(slots), 1, 576, i + seed, given)
        pool.set_kv_buffer(layer(i), at(*slots, dtype=index), row, None)


def written(pool: Any) -> object:
    for index in (torch.int32, torch.int64):
        write(pool, 128, 255, 256, 639, index=index)
        write(pool, 511, 300, index=index, seed=9)
    return bytes_of(planes(pool))


for _dtype in (BF16, FP16):
    on_both(f"rows written in {_dtype}", dtype=_dtype)(written)
MLA.on("rows written in torch.float32", dtype=FP32)(written)
on_both("rows written, pages of 16", page_size=16, size=640)(written)


@MLA_NZ.on("where the ninth latent of a row of float32 is", dtype=FP32)
def ninth(pool: Any) -> object:
    """In bytes from the first: 32 bytes of a token's row lie together, in NZ."""
    row = torch.zeros(1, 1, 576, device="npu")
    row[..., 8] = 1.0
    pool.set_kv_buffer(layer(3), at(128), row, None)
    page = planes(pool)[0][0][1].flatten().nonzero().tolist()
    return [4 * element for (element,) in page]


@on_both("parts of rows written")
def parts(pool: Any) -> object:
    for i in layers(pool):
        latent, rope = rows(3, 1, 512, i), rows(3, 1, 64, i + 7)
        pool.set_kv_buffer(layer(i), at(128, 300, 255), latent, rope)
    return bytes_of(planes(pool))


@on_both("descriptors")
def buffers(pool: Any) -> object:
    return descriptors(pool.get_contiguous_buf_infos(), planes(pool))


@on_both("layers of descriptors")
def layer_ids(pool: Any) -> object:
    return pool.get_kv_layer_ids()


@on_both("sizes")
def sizes(pool: Any) -> object:
    told = pool.get_kv_size_bytes()
    whole = sum(told) if isinstance(told, tuple) else told
    return [int(whole), float(pool.mem_usage), [plane.nbytes for plane in planes(pool)]]


@MLA.on("read doors")
def read(pool: Any) -> object:
    k, v = planes(pool)
    shown = [(pool.get_key_buffer(i), pool.get_value_buffer(i)) for i in layers(pool)]
    return [[door(a, k), door(b, v)] for a, b in (*shown, pool.get_kv_buffer(4))]


@on_both("rows copied to the host and back")
def on_the_host(pool: Any) -> object:
    write(pool, 128, 255, 256)
    pool.load_cpu_copy(pool.get_cpu_copy(at(128, 255, 256)), at(300, 600, 129))
    return unchanged_by(lambda: write(pool, 300, 600, 129), planes(pool))


@on_both("rows moved")
def moved(pool: Any) -> object:
    write(pool, 128, 255)
    pool.move_kv_cache(at(300, 600), at(128, 255))
    return unchanged_by(lambda: write(pool, 300, 600), planes(pool))


@MLA.on("fp8 rows written", dtype=torch.float8_e4m3fn)
def written_in_fp8(pool: Any) -> object:
    """Whether the first latent and rope part are stored as torch casts them."""
    write(pool, 128)
    cast = rows(1, 1, 576, 3).to(torch.float8_e4m3fn).view(torch.uint8).flatten()
    stored = [plane[0].view(torch.uint8).view(640, -1)[128] for plane in planes(pool)]
    return [one.equal(other) for one, other in zip(stored, (cast[:512], cast[512:]), strict=True)]
