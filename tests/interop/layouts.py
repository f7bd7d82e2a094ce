# pyright: basic, reportMissingImports=false
"""The same calls on sglang's pools of other layouts and on ours, and what each then holds.

By head (`SGLANG_USE_HND_KVCACHE`), 16 bytes at a time (the layout of its ROCm kernels, whose writer
runs interpreted), by page (its NPU pool, whose operators are not here: rows are put through its
read doors), and in envelopes of all layers (its unified pool). As in `latent.py`, tensors are told
as digests where they ought to be equal, as short lists where they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from sglang.srt.environ import envs
from sglang.srt.hardware_backend.npu.memory_pool_npu import NPUMHATokenToKVPool
from sglang.srt.mem_cache import memory_pool as base
from sglang.srt.mem_cache import unified_memory_pool as unified

from kvproto.reference import MHALeaf, PageEnvelopeLeaf
from tests.interop import single_rank  # noqa: F401
from tests.interop.latent import ON_CPU, _digest, _layer, _told

__all__ = ["observed"]

BF16, FP16 = torch.bfloat16, torch.float16
E4M3, E4M3FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz
ROWS = {"size": 48, "page_size": 16, "dtype": BF16, "head_num": 3, "head_dim": 32}
ROWS |= {"layer_num": 2, "start_layer": 3, "end_layer": 5} | ON_CPU

Observe = Callable[[Any], object]
SCRIPTS: dict[str, tuple[str, dict[str, object], Observe]] = {}


def observed() -> dict[str, object]:
    """Script -> what sglang's pool shows -> and ours; an exception is told by its name."""
    found: dict[str, object] = {}
    for name, (layout, changes, script) in SCRIPTS.items():
        real, own = LAYOUTS[layout]
        theirs, ours = (_told(script, make(**ROWS | changes)) for make in (real, own))
        found[name] = {"theirs": theirs, "ours": ours}
    return found


def _by_head(**keywords: Any) -> base.MHATokenToKVPool:
    """Moves go through sglang's own torch path, as in `factories.py`."""
    with (
        envs.SGLANG_USE_HND_KVCACHE.override(True),
        envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True),
    ):
        return base.MHATokenToKVPool(**keywords)


def _in_vectors(**keywords: Any) -> base.MHATokenToKVPool:
    """The module's flag for ROCm's kernels is on while the pool is built, and nothing else."""
    layout = envs.SGLANG_AITER_KV_CACHE_LAYOUT.override("vectorized_5d")
    native = envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True)
    with mock.patch.object(base, "_use_aiter", True), layout, native:
        return base.MHATokenToKVPool(**keywords)


def _in_envelopes(**keywords: Any) -> unified.UnifiedMHATokenToKVPool:
    """The lower of two pools in one buffer, which has room for as many pages as ours has."""
    width, size = keywords["head_dim"], keywords["dtype"].itemsize
    rows = {"layer_num": keywords["layer_num"], "head_num": keywords["head_num"], "head_dim": width}
    rows |= {"v_head_dim": keywords.get("v_head_dim", width)}
    rows |= {"store_dtype": torch.uint8 if size == 1 else keywords["dtype"]}
    rows |= {"kv_cache_dtype": keywords["dtype"]}
    specs = [
        unified.MHASubPoolSpec(name=name, grow_direction=way, **rows)
        for name, way in (("full", "up"), ("swa", "down"))
    ]
    page = keywords["page_size"]
    total = (keywords["size"] + page) * specs[0].entry_bytes()
    buffer = unified.UnifiedKVPool(
        total_bytes=total, sub_pool_specs=specs, page_size=page, **ON_CPU
    )
    stage = {name: keywords[name] for name in ("page_size", "start_layer", "end_layer")}
    return unified.UnifiedMHATokenToKVPool(unified_buffer=buffer, sub_pool_name="full", **stage)


def _ours(layout: Any) -> Callable[..., MHALeaf]:
    return lambda **keywords: MHALeaf(**keywords, kv_cache_layout=layout)


LAYOUTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "hnd": (_by_head, _ours("hnd")),
    "vectorized_5d": (_in_vectors, _ours("vectorized_5d")),
    "paged_nhd": (NPUMHATokenToKVPool, _ours("paged_nhd")),
    "page_envelope": (_in_envelopes, PageEnvelopeLeaf),
}


def _on(name: str, layout: str, **changes: object) -> Callable[[Observe], Observe]:
    def add(script: Observe) -> Observe:
        SCRIPTS[name] = (layout, changes, script)
        return script

    return add


def _where(loc: list[int], dtype: torch.dtype = torch.int64) -> base.KVWriteLoc:
    """As sglang's backends pass locations; marked physical, as its unified pool demands."""
    return base.KVWriteLoc(torch.tensor(loc, dtype=dtype), physical=True)


def _rows(pool: Any, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    k, v = (
        (torch.randn(n, pool.head_num, width, generator=made) * 8).to(BF16)
        for width in (pool.head_dim, pool.v_head_dim)
    )
    return (k, v) if pool.dtype.itemsize == 1 else (k.to(pool.dtype), v.to(pool.dtype))


def _layers(pool: Any) -> range:
    return range(pool.start_layer, pool.start_layer + pool.layer_num)


def _fill(pool: Any) -> None:
    """Every usable slot of every layer."""
    slots = list(range(1, pool.size + pool.page_size))
    for i in _layers(pool):
        pool.set_kv_buffer(_layer(i), _where(slots), *_rows(pool, len(slots), i))


def _buffers(pool: Any) -> list[torch.Tensor]:
    return [*pool.k_buffer, *pool.v_buffer]


def _written(pool: Any) -> object:
    for index in (torch.int32, torch.int64):
        for i in _layers(pool):
            loc = _where([5, 17, 1, pool.size + pool.page_size - 1], index)
            pool.set_kv_buffer(_layer(i), loc, *_rows(pool, 4, i))
    return _digest(_buffers(pool))


def _doors(pool: Any) -> object:
    _fill(pool)
    told: list[object] = []
    for door, storage in zip(
        pool.get_kv_buffer(4), (pool.k_buffer[1], pool.v_buffer[1]), strict=True
    ):
        is_alias = door.data_ptr() == storage.data_ptr()
        told += [str(door.dtype), list(door.shape), list(door.stride()), is_alias, _digest([door])]
    return told


def _moved(pool: Any) -> object:
    _fill(pool)
    for tgt, src in (([4, 5, 6], [5, 6, 7]), ([16, 17], [15, 16]), ([40], [1])):
        pool.move_kv_cache(torch.tensor(tgt), torch.tensor(src))
    return _digest(_buffers(pool))


def _sizes(pool: Any) -> object:
    k, v = pool.get_kv_size_bytes()
    return [int(k), int(v), float(pool.mem_usage), str(pool.store_dtype), pool.kv_cache_layout]


def _exported(pool: Any) -> object:
    pointers, lengths, items = pool.get_contiguous_buf_infos()
    in_order = pointers == [buffer.data_ptr() for buffer in _buffers(pool)]
    return [in_order, lengths, items]


def _copied(pool: Any) -> object:
    _fill(pool)
    copy = pool.get_cpu_copy(torch.tensor([9, 2]), mamba_indices=None, req_pool_index=None)
    for buffer in _buffers(pool):
        buffer.zero_()
    pool.load_cpu_copy(copy, torch.tensor([3, 33]), mamba_indices=None, req_pool_index=None)
    return _digest(_buffers(pool))


_changes: dict[str, Any]
for _dtype in (BF16, FP16, torch.float32, E4M3):
    for _page in (1, 16):
        _changes = {"dtype": _dtype, "page_size": _page, "v_head_dim": 16}
        _on(f"hnd: rows written in {_dtype}, pages of {_page}", "hnd", **_changes)(_written)
    _on(f"hnd: rows moved in {_dtype}", "hnd", dtype=_dtype, v_head_dim=16)(_moved)
    _on(f"vectorized_5d: rows written in {_dtype}", "vectorized_5d", dtype=_dtype)(_written)
    _changes = {"dtype": _dtype, "v_head_dim": 16}
    _on(f"page_envelope: rows written in {_dtype}", "page_envelope", **_changes)(_written)

for _layout in ("hnd", "vectorized_5d", "page_envelope"):
    for _dtype in (BF16, E4M3):
        _on(f"{_layout}: read doors in {_dtype}", _layout, dtype=_dtype)(_doors)
for _layout in ("hnd", "vectorized_5d"):
    for _dtype in (BF16, E4M3):
        _on(f"{_layout}: sizes in {_dtype}", _layout, dtype=_dtype)(_sizes)
_on("vectorized_5d: descriptors", "vectorized_5d", page_size=64, size=128)(_exported)


def _put_by_page(pool: Any) -> object:
    """Rows at slots 17, 5 and 33: by our writer, or as the NPU's operator is documented to."""
    loc = [17, 5, 33]
    for i in _layers(pool):
        k, v = _rows(pool, 3, i)
        if isinstance(pool, MHALeaf):
            pool.set_kv_buffer(_layer(i), _where(loc), k, v)
            continue
        for door, rows in zip(pool.get_kv_buffer(i), (k, v), strict=True):
            for slot, row in zip(loc, rows, strict=True):
                door[slot // pool.page_size, slot % pool.page_size] = row
    doors = [door for i in _layers(pool) for door in pool.get_kv_buffer(i)]
    return [_digest(doors), [list(door.stride()) for door in doors]]


def _one_run(pool: Any) -> object:
    steps = [pool.k_buffer[1].data_ptr() - pool.k_buffer[0].data_ptr()]
    return [*steps, pool.v_buffer[1].data_ptr() - pool.v_buffer[0].data_ptr(), _exported(pool)]


for _dtype in (BF16, FP16):
    _changes = {"dtype": _dtype, "v_head_dim": 16}
    _on(f"paged_nhd: rows by page in {_dtype}", "paged_nhd", **_changes)(_put_by_page)
    _on(f"paged_nhd: layers in one run in {_dtype}", "paged_nhd", **_changes)(_one_run)


def _envelopes(pool: Any) -> object:
    raw = pool.get_page_envelope_buffer()
    _fill(pool)
    pointers, lengths, items = pool.get_contiguous_buf_infos()
    at = [pointers == [raw.data_ptr()], lengths, items, pool.grow_direction]
    return [str(raw.dtype), list(raw.shape), _digest([raw]), at]


def _pages_moved(pool: Any) -> object:
    _fill(pool)
    pages = [torch.tensor(each) for each in ([1, 3], [2, 4])]
    pool.move_physical_pages(*pages, pool.page_size)
    moved = _digest([pool.get_page_envelope_buffer()])
    pool.zero_physical_pages(torch.tensor([4]))
    return [moved, _digest([pool.get_page_envelope_buffer()])]


for _page in (1, 4, 64):
    _changes = {"page_size": _page, "size": 5 * _page, "v_head_dim": 16}
    _on(f"page_envelope: envelopes, pages of {_page}", "page_envelope", **_changes)(_envelopes)
    _on(f"page_envelope: pages moved, of {_page}", "page_envelope", **_changes)(_pages_moved)
_changes = {"head_num": 1, "layer_num": 1, "end_layer": 4, "v_head_dim": 8}
_on("page_envelope: padded entries", "page_envelope", **_changes)(_envelopes)
_on("page_envelope: rows copied to the host", "page_envelope")(_copied)
_on("page_envelope: pages of one slot moved", "page_envelope", page_size=1)(_moved)


@_on("a row by head for the reserved slot", "hnd")
def _reserved(pool: Any) -> object:
    rows = torch.full((1, 3, 32), 7.0, dtype=BF16)
    pool.set_kv_buffer(_layer(3), _where([0]), rows, rows)
    return float(pool.k_buffer[0][0, 0, 0, 0])


@_on("a row by head for nowhere", "hnd")
def _nowhere(pool: Any) -> object:
    rows = torch.full((1, 3, 32), 7.0, dtype=BF16)
    pool.set_kv_buffer(_layer(3), _where([-1]), rows, rows)
    return float(pool.k_buffer[0][-1, 0, -1, 0])


@_on("rows by head moved to the reserved slot", "hnd")
def _moved_to_zero(pool: Any) -> object:
    rows = torch.full((1, 3, 32), 7.0, dtype=BF16)
    pool.set_kv_buffer(_layer(3), _where([20]), rows, rows)
    pool.move_kv_cache(torch.tensor([0]), torch.tensor([20]))
    return float(pool.k_buffer[0][0, 0, 0, 0])


_on("rows by head exported", "hnd")(lambda pool: len(pool.get_contiguous_buf_infos()[0]))


@_on("rows by head copied to the host", "hnd")
def _heads_copied(pool: Any) -> object:
    copy = pool.get_cpu_copy(torch.tensor([9, 2]))
    pool.load_cpu_copy(copy, torch.tensor([3, 33]))
    return "restored"


@_on("a vector layout's row for the reserved slot", "vectorized_5d")
def _vector_reserved(pool: Any) -> object:
    rows = torch.full((1, 3, 32), 7.0, dtype=BF16)
    pool.set_kv_buffer(_layer(3), _where([0]), rows, rows)
    return float(pool.k_buffer[0].flatten()[0])


@_on("a vector layout's value of another width", "vectorized_5d", v_head_dim=16)
def _vector_widths(pool: Any) -> object:
    pool.set_kv_buffer(_layer(3), _where([1]), *_rows(pool, 1, 0))
    return "stored"


@_on("a vector layout's slots moved", "vectorized_5d")
def _vector_moved(pool: Any) -> object:
    _fill(pool)
    before = pool.k_buffer[0].clone()
    pool.move_kv_cache(torch.tensor([1]), torch.tensor([2]))
    moved = before[0, :, :, 2], pool.k_buffer[0][0, :, :, 1]
    return [torch.equal(*moved), torch.equal(before[1], pool.k_buffer[0][1])]


@_on("a vector layout's slots copied to the host", "vectorized_5d")
def _vector_copied(pool: Any) -> object:
    _fill(pool)
    before = pool.k_buffer[0].clone()
    copy = pool.get_cpu_copy(torch.tensor([1, 20]))
    pool.load_cpu_copy(copy, torch.tensor([1, 20]))
    return torch.equal(before, pool.k_buffer[0])


@_on("what rows by page say they are", "paged_nhd")
def _label(pool: Any) -> object:
    return [pool.kv_cache_layout, list(pool.get_key_buffer(3).shape)]


@_on("slots of envelopes moved one by one", "page_envelope")
def _slots_moved(pool: Any) -> object:
    _fill(pool)
    before = pool.k_buffer[0].clone()
    pool.move_kv_cache(torch.tensor([17]), torch.tensor([33]))
    return torch.equal(pool.k_buffer[0][17], before[33])


@_on("envelopes moved to the reserved page and to nowhere", "page_envelope")
def _pages_to_nowhere(pool: Any) -> object:
    _fill(pool)
    before = pool.get_page_envelope_buffer().clone()
    pool.move_physical_pages(torch.tensor([0, -1]), torch.tensor([2, 1]), pool.page_size)
    now = pool.get_page_envelope_buffer()
    return [torch.equal(before[0], now[0]), torch.equal(before[-1], now[-1])]


@_on("envelopes of another page size moved", "page_envelope")
def _other_pages(pool: Any) -> object:
    pool.move_physical_pages(torch.tensor([1]), torch.tensor([2]), 2 * pool.page_size)
    return "moved"
