# pyright: basic, reportMissingImports=false
"""The same calls on sglang's latent pools and on ours, and what each then holds.

Every function returns the two observations. Tensors are told as a digest of their bytes where the
two ought to be equal, and as short lists where they are known to differ; `test_latent.py` says
which is which, and by what clause.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool, MLATokenToKVPool

from kvproto.reference import DSALeaf, MLALeaf
from tests.interop import single_rank  # noqa: F401
from tests.interop.rounding import as_compiled, wrong_casts

__all__ = ["observed"]

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E4M3FNUZ, E5M2 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2
ON_CPU = {"device": "cpu", "enable_memory_saver": False}
MLA = {"size": 8, "page_size": 4, "dtype": BF16, "layer_num": 2, "start_layer": 3, "end_layer": 5}
MLA |= {"kv_lora_rank": 16, "qk_rope_head_dim": 8} | ON_CPU
DSA = {
    "size": 128,
    "page_size": 64,
    "dtype": BF16,
    "layer_num": 2,
    "start_layer": 0,
    "end_layer": 2,
}
DSA |= {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128} | ON_CPU
DSA |= {"kv_cache_dim": 576}
PACKED = {"dtype": E4M3, "kv_cache_dim": 656}

Observe = Callable[[Any], object]
SCRIPTS: dict[str, tuple[str, dict[str, object], Observe]] = {}


def observed() -> dict[str, object]:
    """Script -> what sglang's pool shows -> and ours; an exception is told by its name."""
    found: dict[str, object] = {"casts that the interpreter gets wrong": wrong_casts()}
    with as_compiled():
        for name, (family, changes, script) in SCRIPTS.items():
            real, own, plain = FAMILIES[family]
            theirs, ours = (_told(script, make(**plain | changes)) for make in (real, own))
            found[name] = {"theirs": theirs, "ours": ours}
    return found


FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "mla": (MLATokenToKVPool, MLALeaf, MLA),
    "dsa": (DSATokenToKVPool, DSALeaf, DSA),
}


def _on(name: str, family: str, **changes: object) -> Callable[[Observe], Observe]:
    def add(script: Observe) -> Observe:
        SCRIPTS[name] = (family, changes, script)
        return script

    return add


def _told(script: Observe, pool: Any) -> object:
    try:
        return script(pool)
    except Exception as error:
        return type(error).__name__


def _layer(layer_id: int) -> Any:
    return SimpleNamespace(layer_id=layer_id)


def _rows(pool: Any, n: int, seed: int = 0) -> torch.Tensor:
    width = pool.kv_lora_rank + pool.qk_rope_head_dim
    made = torch.Generator().manual_seed(seed + 1)
    return (torch.randn(n, 1, width, generator=made) * 8).to(BF16)


def _parts(pool: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rows[..., : pool.kv_lora_rank], rows[..., pool.kv_lora_rank :]


def _layers(pool: Any) -> range:
    return range(pool.start_layer, pool.start_layer + pool.layer_num)


def _fill(pool: Any) -> None:
    """Every usable slot of every layer, through the split writer."""
    loc = torch.arange(1, pool.size + pool.page_size)
    for i in _layers(pool):
        pool.set_mla_kv_buffer(_layer(i), loc, *_parts(pool, _rows(pool, len(loc), i)))


def _digest(tensors: Iterable[torch.Tensor]) -> list[str]:
    return [
        hashlib.sha256(t.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        for t in tensors
    ]


def _written_by_both_doors(pool: Any) -> object:
    for index in (torch.int32, torch.int64):
        for i in _layers(pool):
            rows = _rows(pool, 4, i)
            whole, split = (torch.tensor(at, dtype=index) for at in ([5, 2], [11, 7]))
            pool.set_kv_buffer(_layer(i), whole, rows[:2], rows[:2, :, : pool.kv_lora_rank])
            pool.set_mla_kv_buffer(_layer(i), split, *_parts(pool, rows[2:]))
    return _digest(pool.kv_buffer)


for _dtype in (BF16, FP16, FP32, E4M3, E5M2):
    _on(f"mla: rows written in {_dtype}", "mla", dtype=_dtype)(_written_by_both_doors)


@_on("mla: a layer named beside the layer", "mla")
def _overridden(pool: Any) -> object:
    rows = _rows(pool, 2)
    pool.set_kv_buffer(None, torch.tensor([1, 2]), rows, rows, layer_id_override=4)
    return _digest(pool.kv_buffer)


def _doors(pool: Any) -> object:
    _fill(pool)
    return [_door(door, pool.kv_buffer[1]) for door in pool.get_kv_buffer(4)]


def _door(door: torch.Tensor, storage: torch.Tensor) -> object:
    is_alias = door.data_ptr() == storage.data_ptr()
    return [str(door.dtype), list(door.shape), list(door.stride()), is_alias, _digest([door])]


for _dtype in (BF16, E4M3):
    _on(f"mla: read doors in {_dtype}", "mla", dtype=_dtype)(_doors)


def _parts_read(pool: Any) -> object:
    _fill(pool)
    loc = torch.tensor([9, 0, 4])
    same = pool.get_mla_kv_buffer(_layer(3), loc)
    wide = pool.get_mla_kv_buffer(_layer(4), loc, dst_dtype=FP32)
    return [[str(t.dtype), list(t.shape), *_digest([t])] for t in (*same, *wide)]


for _dtype in (BF16, E4M3):
    _on(f"mla: parts read from {_dtype}", "mla", dtype=_dtype)(_parts_read)


def _moved(pool: Any) -> object:
    _fill(pool)
    for tgt, src in (([4, 5, 6], [5, 6, 7]), ([6, 7, 8], [5, 6, 7]), ([11], [1]), ([], [])):
        pool.move_kv_cache(torch.tensor(tgt, dtype=torch.int64), torch.tensor(src).long())
    return _digest(pool.kv_buffer)


for _dtype in (BF16, E5M2):
    _on(f"mla: rows moved in {_dtype}", "mla", dtype=_dtype)(_moved)


def _copied_to_the_host(pool: Any) -> object:
    _fill(pool)
    copy = pool.get_cpu_copy(torch.tensor([9, 2]), mamba_indices=None, req_pool_index=None)
    for buffer in pool.kv_buffer:
        buffer.zero_()
    pool.load_cpu_copy(copy, torch.tensor([3, 10]), mamba_indices=None, req_pool_index=None)
    return _digest(pool.kv_buffer)


for _dtype in (BF16, E4M3):
    _on(f"mla: rows copied to the host in {_dtype}", "mla", dtype=_dtype)(_copied_to_the_host)


def _descriptors(pool: Any) -> object:
    pointers, lengths, items = pool.get_contiguous_buf_infos()
    in_order = pointers == [buffer.data_ptr() for buffer in pool.kv_buffer]
    return [in_order, lengths, items]


def _sizes(pool: Any) -> object:
    return [
        int(pool.get_kv_size_bytes()),
        float(pool.mem_usage),
        pool.kv_cache_dim,
        str(pool.store_dtype),
    ]


_changes: dict[str, object]
for _page in (1, 4, 64):
    for _dtype in (BF16, E4M3):
        _changes = {"page_size": _page, "size": 2 * _page, "dtype": _dtype}
        _on(f"mla: descriptors, pages of {_page} in {_dtype}", "mla", **_changes)(_descriptors)
        _on(f"mla: sizes, pages of {_page} in {_dtype}", "mla", **_changes)(_sizes)


def _index_keys(pool: Any, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    keys = torch.randint(0, 127, (n, 128), generator=made).to(torch.uint8).view(E4M3)
    return keys, torch.rand(n, generator=made)


def _store_index(pool: Any) -> None:
    loc = torch.tensor([1, 63, 64, 70, 130, 191])
    for i in (i for i in _layers(pool) if not pool.skip_topk_layers[i - pool.start_layer]):
        pool.set_index_k_scale_buffer(i, loc, *_index_keys(pool, len(loc), i))


@_on("dsa: index keys stored", "dsa")
def _index_stored(pool: Any) -> object:
    _store_index(pool)
    return _digest([*pool.index_k_with_scale_buffer, pool.get_index_k_with_scale_buffer(1)])


@_on("dsa: index keys gathered", "dsa")
def _index_gathered(pool: Any) -> object:
    _store_index(pool)
    lens = torch.tensor([3, 70], dtype=torch.int32)
    tables = torch.tensor([[2, 0], [1, 2]], dtype=torch.int32)
    gathered = pool.get_index_k_scale_buffer(1, lens, tables, 73, 70)
    return [[str(t.dtype), list(t.shape), *_digest([t])] for t in gathered]


def _dsa_moved(pool: Any) -> object:
    loc = torch.tensor([1, 64, 70])
    for i in _layers(pool):
        pool.set_mla_kv_buffer(_layer(i), loc, *_parts(pool, _rows(pool, 3, i)))
    _store_index(pool)
    for tgt, src in (([130], [70]), ([2], [1]), ([64, 65, 66], [65, 66, 67]), ([65], [64])):
        pool.move_kv_cache(torch.tensor(tgt), torch.tensor(src))
    return _digest([*pool.kv_buffer, *pool.index_k_with_scale_buffer])


def _all_descriptors(pool: Any) -> object:
    pointers, lengths, items = pool.get_state_buf_infos()
    in_order = pointers == [buffer.data_ptr() for buffer in pool.index_k_with_scale_buffer]
    return [_descriptors(pool), in_order, lengths, items, _sizes(pool)]


def _packed_written(pool: Any) -> object:
    rows = _rows(pool, 3) * torch.logspace(-3, 3, 576).to(BF16)
    pool.set_mla_kv_buffer(_layer(1), torch.tensor([70, 1, 191]), *_parts(pool, rows))
    return [_digest(pool.kv_buffer), list(pool.get_value_buffer(1).shape)]


for _name, _changes in (("bf16", {}), ("packed", PACKED)):
    _on(f"dsa: rows and index keys moved, {_name}", "dsa", **_changes)(_dsa_moved)
    _on(f"dsa: descriptors and sizes, {_name}", "dsa", **_changes)(_all_descriptors)
    _on(f"dsa: rows written, {_name}", "dsa", **_changes)(_packed_written)
_on("dsa: descriptors and sizes, shared choice", "dsa", skip_topk_layers=[False, True])(
    _all_descriptors
)


@_on("a whole row for the reserved slot", "mla")
def _reserved(pool: Any) -> object:
    rows = torch.full((2, 1, 24), 7.0)
    pool.set_kv_buffer(_layer(3), torch.tensor([0, 3]), rows, rows)
    return pool.kv_buffer[0][:, 0, 0].tolist()


@_on("a row for nowhere", "mla")
def _nowhere(pool: Any) -> object:
    rows = torch.full((1, 1, 24), 7.0)
    pool.set_kv_buffer(_layer(3), torch.tensor([-1]), rows, rows)
    pool.set_mla_kv_buffer(_layer(4), torch.tensor([1]), *_parts(pool, rows))
    return [pool.kv_buffer[0][-1, 0, 0].item(), pool.kv_buffer[1][1, 0, 0].item()]


@_on("a move to the reserved slot and to nowhere", "mla")
def _moved_nowhere(pool: Any) -> object:
    rows = torch.full((1, 1, 24), 7.0)
    pool.set_kv_buffer(_layer(3), torch.tensor([3]), rows, rows)
    pool.move_kv_cache(torch.tensor([0, -1]), torch.tensor([3, 3]))
    return pool.kv_buffer[0][:, 0, 0].tolist()


@_on("a row too narrow", "mla")
def _narrow(pool: Any) -> object:
    row = torch.full((1, 1, 1), 5.0)
    pool.set_kv_buffer(_layer(3), torch.tensor([1]), row, row)
    return pool.kv_buffer[0][1, 0].tolist()


@_on("a large number in e4m3fnuz", "mla", dtype=E4M3FNUZ)
def _saturated(pool: Any) -> object:
    rows = torch.full((1, 1, 24), 1000.0)
    pool.set_kv_buffer(_layer(3), torch.tensor([1]), rows, rows)
    return pool.kv_buffer[0][1, 0, 0].item()


@_on("the layer before the stage", "mla")
def _foreign(pool: Any) -> object:
    return pool.get_key_buffer(2).data_ptr() == pool.kv_buffer[1].data_ptr()


@_on("a fifth argument by position", "mla")
def _fifth(pool: Any) -> object:
    rows = torch.full((1, 1, 24), 7.0)
    pool.set_kv_buffer(_layer(3), torch.tensor([1]), rows, rows, 4)
    return [buffer[1, 0, 0].item() for buffer in pool.kv_buffer]


@_on("a whole row into packed rows", "dsa", **PACKED)
def _joined(pool: Any) -> object:
    pool.set_kv_buffer(_layer(0), torch.tensor([1]), torch.ones(1, 1, 576), None)
    return pool.kv_buffer[0][1, 0, :2].tolist()


@_on("a block of zeros in a packed row", "dsa", **PACKED)
def _zero_block(pool: Any) -> object:
    rows = torch.zeros(1, 1, 576, dtype=BF16)
    pool.set_mla_kv_buffer(_layer(0), torch.tensor([1]), *_parts(pool, rows))
    return sorted(set(pool.kv_buffer[0][1].flatten().tolist()))


@_on("an index key for the reserved slot", "dsa")
def _index_reserved(pool: Any) -> object:
    keys, scales = _index_keys(pool, 1)
    pool.set_index_k_scale_buffer(0, torch.tensor([0]), keys, scales)
    return bool(pool.index_k_with_scale_buffer[0].any())


@_on("index keys of a strided tensor", "dsa")
def _index_strided(pool: Any) -> object:
    keys, scales = _index_keys(pool, 4)
    pool.set_index_k_scale_buffer(0, torch.tensor([65, 66]), keys[::2], scales[::2])
    return pool.index_k_with_scale_buffer[0][1, 128].item() == keys.view(torch.uint8)[0, 0].item()


@_on("index keys of the layer before the stage", "dsa", start_layer=2, end_layer=4)
def _index_foreign(pool: Any) -> object:
    buffer = pool.get_index_k_with_scale_buffer(1)
    return buffer.data_ptr() == pool.index_k_with_scale_buffer[1].data_ptr()


@_on("a host copy of rows with index keys", "dsa")
def _dsa_copied(pool: Any) -> object:
    _store_index(pool)
    copy = pool.get_cpu_copy(torch.tensor([70]))
    pool.load_cpu_copy(copy, torch.tensor([131]))
    pages = pool.index_k_with_scale_buffer[0]
    kept = bool(pages[2, 2 * 128 : 3 * 128].any())
    return [torch.equal(pages[1, 6 * 128 : 7 * 128], pages[2, 3 * 128 : 4 * 128]), kept]
