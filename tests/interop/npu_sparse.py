# pyright: basic, reportMissingImports=false
"""sglang's NPU pools of sparse layers, whole and of index keys alone, and ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.hardware_backend.npu.memory_pool_npu import (
    NPUMHATokenToKOnlyPool,
    NPUMiniMaxSparseKVPool,
)

from kvproto.adapters.npu.key_only import NPUKeyOnlyLeaf
from kvproto.adapters.npu.sparse import NPUSparseIndexLeaf
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

__all__ = ["KEY_ONLY", "KEY_ONLY_FIA", "SPARSE", "SPARSE_FIA"]

BF16, FP16, FP32, FP8 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
STAGE = {name: value for name, value in COMMON.items() if name != "layer_num"} | {"end_layer": 7}
KEYED = STAGE | {"head_num": 2, "head_dim": 64, "idx_head_dim": 32}
KEYED |= {"dense_layer_ids": [0, 3], "sparse_layer_ids": [1, 2, 4, 5, 6, 7]}
KEYED |= {"disable_value_sparse_layer_ids": [2, 4, 6]}
ONLY_KEYS = {"disable_value_sparse_layer_ids": [1, 2, 4, 5, 6, 7]}
KEYS = COMMON | {"head_num": 1, "head_dim": 32}

SPARSE = Scripts(NPUMiniMaxSparseKVPool, NPUSparseIndexLeaf, **KEYED)
"""Rows by `_npu_reshape_and_cache`, keys alone by `npu_scatter_nd_update_`."""
SPARSE_FIA = Scripts(
    made_with(NPUMiniMaxSparseKVPool, ASCEND_USE_FIA="1"), NPUSparseIndexLeaf, **KEYED
)
"""All of it by `npu_scatter_nd_update_`."""
KEY_ONLY = Scripts(NPUMHATokenToKOnlyPool, NPUKeyOnlyLeaf, **KEYS)
KEY_ONLY_FIA = Scripts(
    made_with(NPUMHATokenToKOnlyPool, ASCEND_USE_FIA="1"), NPUKeyOnlyLeaf, **KEYS
)
WHOLE, ALONE = (SPARSE, SPARSE_FIA), (KEY_ONLY, KEY_ONLY_FIA)


def on(families: tuple[Scripts, ...], name: str, **changes: object) -> Callable[[Observe], Observe]:
    def add(script: Observe) -> Observe:
        for scripts in families:
            scripts.on(name, **changes)(script)
        return script

    return add


def keys_of(pool: Any) -> torch.Tensor:
    """All layers of a pool of keys, which sglang's keeps under a name of its own."""
    theirs = isinstance(pool, NPUMHATokenToKOnlyPool)
    keys: torch.Tensor
    (keys,) = (pool.k_buffer_tensor,) if theirs else pool.get_hicache_transfer_buffers()
    return keys


def planes(pool: Any) -> list[torch.Tensor]:
    """Main rows, index keys and values, then index keys alone."""
    held = list(pool.main_pool.get_hicache_transfer_buffers())
    if pool.index_kv_pool is not None:
        held += pool.index_kv_pool.get_hicache_transfer_buffers()
    return held if pool.index_k_pool is None else [*held, keys_of(pool.index_k_pool)]


def given(pool: Any, i: int, n: int, seed: int) -> list[torch.Tensor]:
    main = BF16 if pool.dtype == FP8 else pool.dtype
    index = pool.index_k_pool.dtype
    index = BF16 if index == FP8 else index
    k, v = (rows(n, 2, 64, 10 * i + seed + j, main) for j in range(2))
    index_k, index_v = (rows(n, 1, 32, 10 * i + seed + j, index) for j in range(2, 4))
    return [k, v, index_k, index_v]


def write(pool: Any, *slots: int, seed: int = 0) -> None:
    """Of every layer: main rows, and the index rows that it has."""
    loc = at(*slots)
    for i in range(3, 7):
        k, v, index_k, index_v = given(pool, i, len(slots), seed)
        if i == 3:
            pool.set_kv_buffer(layer(i), loc, k, v)
        else:
            pool.set_fused_kv_index_buffer(
                layer(i), loc, k, v, index_k, index_v if i == 5 else None
            )


def written(pool: Any) -> object:
    write(pool, 128, 255, 256, 639)
    write(pool, 511, 300, seed=90)
    return bytes_of(planes(pool))


for _dtype in (BF16, FP16):
    on(WHOLE, f"rows written in {_dtype}", dtype=_dtype)(written)
on(WHOLE, "rows written, index rows in another type", index_dtype=FP16)(written)
on(WHOLE, "rows written, pages of 16", page_size=16, size=640)(written)
SPARSE_FIA.on("rows written in torch.float32", dtype=FP32)(written)


@on(WHOLE, "fp8 rows written", dtype=FP8, index_dtype=BF16)
def written_in_fp8(pool: Any) -> object:
    """Whether main rows are stored as torch casts them, and index keys beside them as given."""
    write(pool, 300)
    k, v, index_k, _ = given(pool, 4, 1, 0)
    keys, values, _, _, alone = planes(pool)
    return [
        _stored(keys[1], 300).equal(_bytes(k.to(FP8))),
        _stored(values[1], 300).equal(_bytes(v.to(FP8))),
        _stored(alone[0], 300).equal(_bytes(index_k)),
    ]


def _stored(layer_of_plane: torch.Tensor, slot: int) -> torch.Tensor:
    return _bytes(layer_of_plane.view(640, -1)[slot])


def _bytes(given_rows: torch.Tensor) -> torch.Tensor:
    return given_rows.cpu().contiguous().view(torch.uint8).flatten()


@on(WHOLE, "index rows written alone")
def index_alone(pool: Any) -> object:
    for i, index in ((4, torch.int32), (6, torch.int64)):
        pool.set_index_k_buffer(layer(i), at(128, 300, dtype=index), rows(2, 1, 32, i))
    pool.set_index_kv_buffer(layer(5), at(639, 129), rows(2, 1, 32, 5), rows(2, 1, 32, 6))
    return bytes_of(planes(pool))


@on(WHOLE, "descriptors")
def buffers(pool: Any) -> object:
    return descriptors(pool.get_contiguous_buf_infos(), planes(pool))


@on(WHOLE, "descriptors of sparse layers")
def sparse_buffers(pool: Any) -> object:
    """Where they begin, and their lengths."""
    return descriptors(pool.get_sparse_kv_buf_infos()[:2], planes(pool))


@on(WHOLE, "item lengths of sparse layers")
def sparse_items(pool: Any) -> object:
    return [int(n) for n in pool.get_sparse_kv_buf_infos()[2]]


@on(WHOLE, "descriptors of index keys", **ONLY_KEYS)
def index_buffers(pool: Any) -> object:
    theirs = isinstance(pool, NPUMiniMaxSparseKVPool)
    infos = pool.get_index_k_state_buf_infos() if theirs else pool.get_state_buf_infos()
    kept = [entry for entry in zip(*infos, strict=True) if entry[2]]
    return descriptors(tuple(map(list, zip(*kept, strict=True))), planes(pool))


@on(WHOLE, "sizes")
def sizes(pool: Any) -> object:
    shapes = [[list(plane.shape), str(plane.dtype)] for plane in planes(pool)]
    return [*(int(n) for n in pool.get_kv_size_bytes()), float(pool.mem_usage), shapes]


@SPARSE.on("read doors")
def read(pool: Any) -> object:
    k, v, index_k, index_v, keys = planes(pool)
    main = [(pool.get_key_buffer(i), pool.get_value_buffer(i)) for i in layers(pool)]
    shown = [[door(a, k), door(b, v)] for a, b in (*main, pool.get_kv_buffer(4))]
    both = pool.get_index_kv_buffer(5)
    alone = [door(pool.get_index_k_buffer(i), keys) for i in (4, 6)]
    return [shown, door(both[0], index_k), door(both[1], index_v), alone]


@on(WHOLE, "rows moved")
def moved(pool: Any) -> object:
    write(pool, 128, 255)
    pool.move_kv_cache(at(300, 600), at(128, 255))
    return unchanged_by(lambda: write(pool, 300, 600), planes(pool))


@on(WHOLE, "rows copied to the host and back")
def on_the_host(pool: Any) -> object:
    write(pool, 128, 255)
    pool.load_cpu_copy(pool.get_cpu_copy(at(128, 255)), at(300, 600))
    return unchanged_by(lambda: write(pool, 300, 600), planes(pool))


def write_keys(pool: Any, *slots: int, index: torch.dtype = torch.int64, seed: int = 0) -> None:
    dtype = BF16 if pool.dtype == FP8 else pool.dtype
    for i in layers(pool):
        keys = rows(len(slots), pool.head_num, pool.head_dim, i + seed, dtype)
        pool.set_k_buffer(i, at(*slots, dtype=index), keys)


def keys_written(pool: Any) -> object:
    for index in (torch.int32, torch.int64):
        write_keys(pool, 128, 255, 256, 639, index=index)
        write_keys(pool, 511, 300, index=index, seed=9)
    return bytes_of([keys_of(pool)])


for _dtype in (BF16, FP16, FP32):
    on(ALONE, f"keys written in {_dtype}", dtype=_dtype)(keys_written)
on(ALONE, "keys of two heads written, pages of 16", head_num=2, page_size=16, size=640)(
    keys_written
)


@on(ALONE, "fp8 keys written", dtype=FP8)
def keys_written_in_fp8(pool: Any) -> object:
    """Whether keys are stored as torch casts them."""
    write_keys(pool, 300)
    cast = rows(1, 1, 32, 4).to(FP8)
    return _stored(keys_of(pool)[1], 300).equal(_bytes(cast))


@on(ALONE, "descriptors")
def key_buffers(pool: Any) -> object:
    return descriptors(pool.get_contiguous_buf_infos(), [keys_of(pool)])


@KEY_ONLY.on("sizes")
def key_sizes(pool: Any) -> object:
    keys = keys_of(pool)
    told = [int(n) for n in pool.get_kv_size_bytes()]
    return [*told, float(pool.mem_usage), list(keys.shape), str(keys.dtype)]


@KEY_ONLY.on("read doors")
def read_keys(pool: Any) -> object:
    return [door(pool.get_key_buffer(i), keys_of(pool)) for i in layers(pool)]


@KEY_ONLY.on("keys moved")
def keys_moved(pool: Any) -> object:
    write_keys(pool, 128, 255)
    pool.move_kv_cache(at(300, 600), at(128, 255))
    return unchanged_by(lambda: write_keys(pool, 300, 600), [keys_of(pool)])


@KEY_ONLY.on("keys copied to the host and back")
def keys_on_the_host(pool: Any) -> object:
    write_keys(pool, 128, 255)
    pool.load_cpu_copy(pool.get_cpu_copy(at(128, 255)), at(300, 600))
    return unchanged_by(lambda: write_keys(pool, 300, 600), [keys_of(pool)])
