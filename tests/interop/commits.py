# pyright: basic, reportMissingImports=false
"""Accepted drafts stored by sglang's pools and by ours.

sglang's door takes another way on CUDA: its tiled kernels, which are called here as well, through
Triton's interpreter, with the arguments that the door would give them.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache import memory_pool
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

from kvproto.reference import MHALeaf
from tests.interop.side_by_side import Scripts, digest, layer

__all__ = ["observed"]

BF16, FP16, E4M3, E5M2 = torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2
SCRIPTS = Scripts(
    MHATokenToKVPool,
    MHALeaf,
    size=24,
    page_size=4,
    dtype=BF16,
    head_num=2,
    head_dim=32,
    layer_num=2,
    start_layer=3,
    end_layer=5,
    device="cpu",
    enable_memory_saver=False,
)
SLOTS = torch.tensor([[4, 7, 5], [8, 9, 21], [12, 11, 10], [1, 2, 3]])
LENGTHS = ([0, 1, 2, 3], [3, 3, 3, 3], [0, 0, 0, 0], [7, 1, 0, 2])
observed = SCRIPTS.observed


def _rows(pool: Any, width: int, seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return (torch.randn(SLOTS.numel(), pool.head_num, width, generator=made) * 4).to(BF16)


def _both(pool: Any, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return _rows(pool, pool.head_dim, seed), _rows(pool, pool.v_head_dim, seed + 1)


def _buffers(pool: Any) -> list[str]:
    return digest([*pool.k_buffer, *pool.v_buffer])


def _committed(pool: Any) -> object:
    seen = []
    for seed, lengths in enumerate(LENGTHS):
        for index in (torch.int32, torch.int64):
            lens = torch.tensor(lengths, dtype=index)
            k, v = _both(pool, seed)
            pool.set_kv_buffer_prefix_valid(layer(4), SLOTS.to(index), lens, k, v)
            seen.append(_buffers(pool))
    return seen


for _dtype in (BF16, FP16, E4M3, E5M2):
    SCRIPTS.on(f"drafts stored in {_dtype}", dtype=_dtype)(_committed)
SCRIPTS.on("values of another width", v_head_dim=16)(_committed)


@SCRIPTS.on("drafts with scales", dtype=E4M3)
def _scaled(pool: Any) -> object:
    k, v = _both(pool)
    lens = torch.tensor([1, 2, 3, 0])
    pool.set_kv_buffer_prefix_valid(layer(3), SLOTS, lens, k, v, 0.5, torch.tensor(2.0))
    return _buffers(pool)


@SCRIPTS.on("a layer named beside the layer")
def _overridden(pool: Any) -> object:
    lens = torch.tensor([1, 2, 3, 0])
    pool.set_kv_buffer_prefix_valid(None, SLOTS, lens, *_both(pool), layer_id_override=3)
    return _buffers(pool)


@SCRIPTS.on("as the tiled kernel stores them")
def _tiled(pool: Any) -> object:
    for seed, lengths in enumerate(LENGTHS):
        (k, v), lens = _both(pool, seed), torch.tensor(lengths, dtype=torch.int32)
        if isinstance(pool, MHATokenToKVPool):
            width = pool.head_num * pool.head_dim
            to = pool.k_buffer[1], pool.v_buffer[1]
            memory_pool._set_kv_buffer_prefix_valid_impl(
                k, v, *to, SLOTS, lens, row_dim=width, store_dtype=BF16
            )
        else:
            pool.set_kv_buffer_prefix_valid(layer(4), SLOTS, lens, k, v)
    return _buffers(pool)


@SCRIPTS.on("as the tiled fp8 kernel stores them", dtype=E4M3)
def _tiled_fp8(pool: Any) -> object:
    for seed, lengths in enumerate(LENGTHS):
        # float32: the interpreter compares bf16 as the integers it keeps it in.
        k, v = (rows.float() for rows in _both(pool, seed))
        lens = torch.tensor(lengths, dtype=torch.int32)
        if isinstance(pool, MHATokenToKVPool):
            width = pool.head_num * pool.head_dim
            to = [buffer[1].view(E4M3) for buffer in (pool.k_buffer, pool.v_buffer)]
            memory_pool._set_kv_buffer_prefix_valid_impl_fp8(
                k, v, *to, 0.5, 2.0, SLOTS, lens, row_dim=width
            )
        else:
            pool.set_kv_buffer_prefix_valid(layer(4), SLOTS, lens, k, v, 0.5, 2.0)
    return _buffers(pool)


def _held(pool: Any) -> object:
    return pool.k_buffer[0][:, 0, 0].float().tolist()


def _commit_ones(pool: Any, slots: list[int], length: int, layer_id: int = 3) -> None:
    ones = torch.ones(len(slots), 2, 32)
    lens = torch.tensor([length])
    pool.set_kv_buffer_prefix_valid(layer(layer_id), torch.tensor([slots]), lens, ones, ones)


@SCRIPTS.on("an accepted draft for the reserved slot", size=4)
def _reserved(pool: Any) -> object:
    _commit_ones(pool, [0, 3], 2)
    return _held(pool)


@SCRIPTS.on("an accepted draft for nowhere", size=4)
def _nowhere(pool: Any) -> object:
    _commit_ones(pool, [-1, 3], 2)
    return _held(pool)


@SCRIPTS.on("drafts for the layer before the stage")
def _foreign(pool: Any) -> object:
    _commit_ones(pool, [1], 1, layer_id=2)
    return pool.k_buffer[1][1, 0, 0].item()
