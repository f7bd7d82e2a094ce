# pyright: basic, reportMissingImports=false
"""Main and index rows stored by sglang's sparse pool and by ours."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import MiniMaxSparseKVPool

from kvproto.reference import SparseIndexLeaf
from tests.interop.side_by_side import Scripts, digest, layer

__all__ = ["observed"]

BF16, FP16, E4M3 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
SCRIPTS = Scripts(
    MiniMaxSparseKVPool,
    SparseIndexLeaf,
    size=24,
    page_size=4,
    dtype=BF16,
    head_num=2,
    head_dim=16,
    idx_head_dim=8,
    dense_layer_ids=[0, 1, 4, 6],
    sparse_layer_ids=[2, 3, 5, 7],
    disable_value_sparse_layer_ids=[3, 7],
    device="cpu",
    enable_memory_saver=False,
    start_layer=1,
    end_layer=6,
    enable_hisparse=False,
    host_to_device_ratio=2,
)
ONLY_KEYS = {"disable_value_sparse_layer_ids": [2, 3, 5, 7]}
LOC = torch.tensor([5, 23, 9])
observed = SCRIPTS.observed


def _rows(n: int, heads: int, width: int, seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return (torch.randn(n, heads, width, generator=made) * 4).to(BF16)


def _given(n: int, seed: int) -> list[torch.Tensor]:
    shapes = ((2, 16), (2, 16), (1, 8), (1, 8))
    return [_rows(n, *shape, 10 * seed + i) for i, shape in enumerate(shapes)]


def _held(pool: Any) -> list[str]:
    parts = [*pool.main_pool.k_buffer, *pool.main_pool.v_buffer]
    for index in (pool.index_k_pool, pool.index_kv_pool):
        if index is not None:
            parts += [*index.k_buffer, *getattr(index, "v_buffer", [])]
    return digest(parts)


def _fused(pool: Any) -> object:
    for i in range(1, 6):
        k, v, index_k, index_v = _given(3, i)
        if i in pool.index_kv_layer_id_mapping:
            pool.set_fused_kv_index_buffer(layer(i), LOC, k, v, index_k, index_v)
        elif i in pool.index_k_layer_id_mapping:
            pool.set_fused_kv_index_buffer(layer(i), LOC.int().long(), k, v, index_k, None)
        else:
            pool.set_kv_buffer(layer(i), LOC, k, v)
    return _held(pool)


for _name, _changes in (
    ("", {}),
    (", fp16 index rows", {"index_dtype": FP16}),
    (", fp8 main rows", {"dtype": E4M3, "index_dtype": BF16}),
    (", fp8 everywhere", {"dtype": E4M3}),
    (", index keys only", ONLY_KEYS),
):
    SCRIPTS.on(f"fused writes{_name}", **_changes)(_fused)


@SCRIPTS.on("index rows written alone")
def _alone(pool: Any) -> object:
    _, _, index_k, index_v = _given(3, 1)
    pool.set_index_k_buffer(layer(3), LOC, index_k)
    for i in (2, 5):
        pool.set_index_kv_buffer(layer(i), LOC, index_k, index_v)
    return _held(pool)


@SCRIPTS.on("index rows with scales", dtype=E4M3)
def _scaled(pool: Any) -> object:
    k, v, index_k, index_v = _given(3, 1)
    pool.set_fused_kv_index_buffer(layer(2), LOC, k, v, index_k, index_v, 0.5, 0.25, 2.0, 0.125)
    return _held(pool)


@SCRIPTS.on("read doors", dtype=E4M3)
def _doors(pool: Any) -> object:
    _fused(pool)
    seen = [pool.get_index_k_buffer(i) for i in (2, 3, 5)]
    seen += [*pool.get_index_kv_buffer(2), *pool.get_kv_buffer(4)]
    return [[str(t.dtype), list(t.shape), *digest([t])] for t in seen]


def _descriptors(pool: Any) -> object:
    every, sparse = pool.get_contiguous_buf_infos(), pool.get_sparse_kv_buf_infos()
    main = [b.data_ptr() for b in (*pool.main_pool.k_buffer, *pool.main_pool.v_buffer)]
    order = [[main.index(at) for at in infos[0]] for infos in (every, sparse)]
    return [order, every[1:], sparse[1:], pool.get_v_head_dim(), [pool.head_num, pool.head_dim]]


def _index_descriptors(pool: Any) -> object:
    theirs = isinstance(pool, MiniMaxSparseKVPool)
    infos = pool.get_index_k_state_buf_infos() if theirs else pool.get_state_buf_infos()
    kept = [entry for entry in zip(*infos, strict=True) if entry[2]]
    buffers = [b.data_ptr() for b in pool.index_k_pool.k_buffer]
    return [[buffers.index(at), length, item] for at, length, item in kept]


def _sizes(pool: Any) -> object:
    facts = [pool.size, pool.page_size, pool.layer_num, pool.start_layer, pool.end_layer]
    return [
        [int(n) for n in pool.get_kv_size_bytes()],
        float(pool.mem_usage),
        str(pool.store_dtype),
        facts,
    ]


for _page in (1, 4):
    _size = {"page_size": _page, "size": 6 * _page}
    SCRIPTS.on(f"descriptors of main rows, pages of {_page}", **_size)(_descriptors)
    SCRIPTS.on(f"descriptors of index keys, pages of {_page}", **_size, **ONLY_KEYS)(
        _index_descriptors
    )
    SCRIPTS.on(f"sizes, pages of {_page}", **_size, index_dtype=FP16)(_sizes)


def _first_keys(pool: Any, at: list[int]) -> list[float]:
    index: torch.Tensor = pool.get_index_k_buffer(3)
    return [index[i, 0, 0].item() for i in at]


@SCRIPTS.on("an index key for the reserved slot")
def _reserved(pool: Any) -> object:
    pool.set_index_k_buffer(layer(3), torch.tensor([0, 3]), torch.ones(2, 1, 8))
    return _first_keys(pool, [0, 3])


@SCRIPTS.on("an index key for nowhere")
def _nowhere(pool: Any) -> object:
    pool.set_index_k_buffer(layer(3), torch.tensor([-1, 3]), torch.ones(2, 1, 8))
    return _first_keys(pool, [27, 3])


@SCRIPTS.on("index values for a layer without them")
def _needless(pool: Any) -> object:
    try:
        pool.set_fused_kv_index_buffer(layer(3), LOC, *_given(3, 1))
    except ValueError as error:
        return [type(error).__name__, bool(pool.get_key_buffer(3).any())]
    return "stored"


@SCRIPTS.on("scales of a fused write", dtype=E4M3)
def _mutated(pool: Any) -> object:
    rows = [torch.full((1, heads, width), 4.0, dtype=BF16) for heads, width in ((2, 16), (1, 8))]
    k, index = rows
    scales = (0.5, 0.5, 0.5, 0.5)
    pool.set_fused_kv_index_buffer(layer(2), LOC[:1], k, k.clone(), index, index.clone(), *scales)
    return [k.max().item(), index.max().item()]


@SCRIPTS.on("main rows of the layer before the stage")
def _foreign(pool: Any) -> object:
    return pool.get_key_buffer(0).data_ptr() == pool.main_pool.k_buffer[-1].data_ptr()


@SCRIPTS.on("tokens moved with their index rows")
def _moved(pool: Any) -> object:
    _fused(pool)
    pool.move_kv_cache(torch.tensor([6]), torch.tensor([5]))
    return torch.equal(*(pool.get_index_k_buffer(3)[i] for i in (5, 6)))


@SCRIPTS.on("tokens copied to the host with their index rows")
def _copied(pool: Any) -> object:
    _fused(pool)
    pool.load_cpu_copy(pool.get_cpu_copy(torch.tensor([5])), torch.tensor([6]))
    return torch.equal(*(pool.get_index_k_buffer(3)[i] for i in (5, 6)))
