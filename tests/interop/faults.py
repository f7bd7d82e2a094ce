# pyright: basic, reportMissingImports=false
"""Known faults of sglang's real pools, each reproduced directly and without kvproto.

What the kit says about these pools is checked against what is seen here. Every function builds
a pool, makes one call and returns what can be observed; `test_faults.py` holds the expectations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.hardware_backend.npu.memory_pool_npu import NPUMLATokenToKVPool
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from tests.interop import single_rank  # noqa: F401

__all__ = ["FAULTS", "reproduce"]

FAULTS: dict[str, Callable[[], object]] = {}
LAYER = SimpleNamespace(layer_id=0)
ON_CPU = {"device": "cpu", "enable_memory_saver": False}


def reproduce() -> dict[str, object]:
    """What every reproduction observes, by its name."""
    return {name: observe() for name, observe in FAULTS.items()}


def _fault(observe: Callable[[], object]) -> Callable[[], object]:
    FAULTS[observe.__name__] = observe
    return observe


def _mha(**options: object) -> MHATokenToKVPool:
    plain = {"size": 8, "page_size": 1, "dtype": torch.bfloat16, "layer_num": 2}
    return MHATokenToKVPool(**plain | {"head_num": 1, "head_dim": 1} | ON_CPU | options)


def _mla(**options: object) -> MLATokenToKVPool:
    plain = {"size": 8, "page_size": 1, "dtype": torch.bfloat16, "layer_num": 2}
    return MLATokenToKVPool(**plain | {"kv_lora_rank": 1, "qk_rope_head_dim": 1} | ON_CPU | options)


def _write(pool: Any, loc: list[int], value: list[float], width: int = 1) -> None:
    rows = torch.tensor(value, dtype=torch.bfloat16).view(-1, 1, 1).expand(-1, 1, width)
    pool.set_kv_buffer(LAYER, torch.tensor(loc), rows.clone(), rows.clone())


def _write_split(pool: Any, loc: list[int], value: list[float]) -> None:
    part = torch.tensor(value, dtype=torch.bfloat16).view(-1, 1, 1)
    pool.set_mla_kv_buffer(LAYER, torch.tensor(loc), part, part)


def _keys(pool: Any, layer_id: int = 0) -> list[float]:
    keys: list[float] = pool.get_key_buffer(layer_id)[:, 0, 0].tolist()
    return keys


def _error(call: Callable[..., object], *arguments: object) -> str | None:
    try:
        call(*arguments)
    except Exception as error:
        return type(error).__name__
    return None


@_fault
def scales_divide_the_callers_tensors() -> object:
    """sglang#18818: after a write with scales, the caller's keys and values are other numbers."""
    k = torch.full((1, 1, 1), 3.0, dtype=torch.bfloat16)
    v = k.clone()
    _mha(dtype=torch.float8_e4m3fn).set_kv_buffer(LAYER, torch.tensor([1]), k, v, 0.5, 0.25)
    return {"given": [3.0, 3.0], "left": [k.item(), v.item()]}


@_fault
def padding_rows_overwrite_slot_0() -> object:
    """sglang#36207: rows aimed at the reserved slot are stored; every later masked read meets them.

    The split writer of latent rows has the guard that its sisters lack.
    """
    mha, mla, split = _mha(), _mla(), _mla()
    _write(mha, [0, 3], [7, 5])
    _write(mla, [0, 3], [7, 5], width=2)
    _write_split(split, [0, 3], [7, 5])
    return {"mha": _keys(mha)[0], "mla": _keys(mla)[0], "mla split": _keys(split)[0]}


@_fault
def negative_locations_wrap_to_the_last_row() -> object:
    """tokenspeed#709: -1, which means "nowhere", is the last row of the buffer."""
    mha, mla, split = _mha(), _mla(), _mla()
    _write(mha, [-1, 2], [7, 5])
    _write(mla, [-1, 2], [7, 5], width=2)
    _write_split(split, [-1, 2], [7, 5])
    return {"mha": _keys(mha)[8], "mla": _keys(mla)[8], "mla split": _keys(split)[8]}


@_fault
def layers_below_the_stage_wrap() -> object:
    """sglang#22605: a stage of layers 8 and 9 answers for layer 7 with layer 9, for 6 with 8."""
    served = {}
    for name, pool in (("mha", _mha(start_layer=8)), ("mla", _mla(start_layer=8))):
        own = {pool.get_key_buffer(i).data_ptr(): i for i in (8, 9)}
        served[name] = {str(i): own[pool.get_key_buffer(i).data_ptr()] for i in (6, 7)}
    return served


@_fault
def fp8_does_not_saturate() -> object:
    """rtp-llm#1256: the bytes of 1000, -1000 and +inf are whatever torch's cast makes of them."""
    return {
        str(dtype).removeprefix("torch."): _fp8_bytes(dtype)
        for dtype in (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)
    }


def _fp8_bytes(dtype: torch.dtype) -> list[str]:
    pool = _mha(dtype=dtype)
    _write(pool, [1, 2, 3], [1000, -1000, float("inf")])
    return [f"0x{byte:02x}" for byte in pool.k_buffer[0].flatten()[1:4].tolist()]


@_fault
def end_layer_defaults_to_the_last_layer() -> object:
    """Inclusive, and without `start_layer`, where every reader takes it for exclusive."""
    first, later = _mha(), _mha(start_layer=8)
    return [[pool.start_layer, pool.end_layer, pool.layer_num] for pool in (first, later)]


@_fault
def a_move_works_only_when_asked_for_at_construction() -> object:
    """`move_kv_cache` is there on every pool, and asserts on those built by default."""
    return _error(_mha().move_kv_cache, torch.tensor([2]), torch.tensor([1]))


@_fault
def a_move_to_minus_one_writes_below_the_buffer() -> object:
    """The tiled kernel adds -1 row to the base. Shown on memory that lies around it."""
    pool = _mha(layer_num=1, enable_kv_cache_copy=True)
    around = torch.zeros(8, dtype=torch.bfloat16)
    around[3] = 7
    pool.data_ptrs = torch.tensor([around[2:].data_ptr()] * 2, dtype=torch.uint64)
    pool.move_kv_cache(torch.tensor([-1]), torch.tensor([1]))
    return around.tolist()


@_fault
def a_ragged_size_leaves_a_short_last_page() -> object:
    """sglang#26490: with 6 slots in pages of 4, the last page to be sent ends past the buffer."""
    sizes = {}
    for name, pool in (("mha", _mha(size=6, page_size=4)), ("mla", _mla(size=6, page_size=4))):
        _, lens, item_lens = pool.get_contiguous_buf_infos()
        sizes[name] = [lens[0], item_lens[0]]
    return sizes


@_fault
def window_moves_write_slot_0() -> object:
    """sglang#31215: a move to a token without a window peer lands in the window's reserved slot."""
    pool = _swa()
    pool.register_mapping(torch.tensor([0, 1, 0, 0, 0, 0, 0, 0, 0, -1]))
    pool.swa_kv_pool.k_buffer[0][1] = 7
    pool.move_kv_cache(torch.tensor([2]), torch.tensor([1]))
    return pool.swa_kv_pool.k_buffer[0][0].item()


@_fault
def index_keys_are_read_before_they_are_loaded() -> object:
    """Its own index-key doors do not wait for the layer's load, the key door does."""
    waited: list[int] = []
    pool = _swa_over_dsa()
    pool.register_layer_transfer_counter(SimpleNamespace(wait_until=waited.append))
    pool.get_index_k_with_scale_buffer(1)
    after_index = list(waited)
    pool.get_key_buffer(1)
    return {"after the index door": after_index, "after the key door": waited}


@_fault
def a_window_layer_needs_more_than_locations() -> object:
    """Given a tensor of locations, the write door of a window layer asserts."""
    row = torch.ones(1, 1, 1, dtype=torch.bfloat16)
    return _error(_swa().set_kv_buffer, LAYER, torch.tensor([1]), row, row)


@_fault
def only_its_own_write_location_is_unwrapped() -> object:
    """Another object with the same attributes is taken for an index."""
    row, loc = torch.ones(1, 1, 1, dtype=torch.bfloat16), torch.tensor([1])
    same = SimpleNamespace(loc=loc, swa_loc=None, full_loc=None, physical=True)
    return _error(_mha().set_kv_buffer, LAYER, same, row, row)


@_fault
def a_scale_by_position_is_a_layer_on_latent_pools() -> object:
    """The fifth argument, a scale on every other leaf, picks the layer that is written."""
    pool, row = _mla(), torch.ones(1, 1, 2, dtype=torch.bfloat16)
    pool.set_kv_buffer(LAYER, torch.tensor([1]), row, row, 1)
    return {"layer 0": _keys(pool, 0)[1], "layer 1": _keys(pool, 1)[1]}


@_fault
def a_narrow_row_is_spread_over_the_slot() -> object:
    """sglang#39058: a value of width 1 fills a slot of width 2; a pool may store width 0."""
    pool, row = _mha(v_head_dim=2), torch.full((1, 1, 1), 5.0, dtype=torch.bfloat16)
    pool.set_kv_buffer(LAYER, torch.tensor([1]), row, row)
    empty = _mha(v_head_dim=0).get_value_buffer(0)
    return {"stored": pool.get_value_buffer(0)[1, 0].tolist(), "empty": list(empty.shape)}


@_fault
def a_mask_writes_values_as_wide_as_keys() -> object:
    """The masked writer takes the width of keys for both: values land in the next slot too."""
    pool = _mha(head_dim=2, v_head_dim=1)
    rows, mask = torch.full((2, 1, 2), 5.0, dtype=torch.bfloat16), torch.tensor([True, False])
    loc, values = torch.tensor([1, 4]), rows[..., :1]  # not copied: what lies behind is 5, too
    pool.set_kv_buffer(LAYER, loc, rows, values, dcp_kv_mask=mask)
    return pool.get_value_buffer(0)[:4, 0, 0].tolist()


@_fault
def window_writes_divide_even_without_scales() -> object:
    """The window pair's default scale is 1.0, so an expanded input cannot be written."""
    row = torch.ones(1, 1, 1, dtype=torch.bfloat16).expand(2, 1, 1)
    pool = _swa(dtype=torch.float8_e4m3fn)
    return _error(pool.set_kv_buffer, SimpleNamespace(layer_id=1), torch.tensor([1, 2]), row, row)


@_fault
def inherited_doors_reach_for_replaced_storage() -> object:
    """sglang#25249: a subclass of the latent pool whose latent doors look for another's tensors."""
    rows = {"size": 8, "page_size": 1, "dtype": torch.bfloat16, "layer_num": 1}
    pool = NPUMLATokenToKVPool(**rows, kv_lora_rank=1, qk_rope_head_dim=1, **ON_CPU)
    one = torch.tensor([1])
    return {
        "set_mla_kv_buffer": _error(_write_split, pool, [1], [5]),
        "move_kv_cache": _error(pool.move_kv_cache, one, one),
    }


@_fault
def a_slot_freed_twice_is_given_away_twice() -> object:
    """LMCache#5005: two owners of one slot, silently."""
    tokens = {"size": 4, "dtype": torch.bfloat16, "device": "cpu", "need_sort": False}
    allocator = TokenToKVPoolAllocator(kvcache=_mha(size=4), **tokens)
    taken = allocator.alloc(2)
    allocator.free(taken)
    allocator.free(taken)
    return {
        "size": 4,
        "available": allocator.available_size(),
        "given": allocator.alloc(6).tolist(),
    }


def _swa(**options: object) -> SWAKVPool:
    rows = {"size": 8, "size_swa": 4, "page_size": 1, "dtype": torch.bfloat16}
    layers = {"swa_attention_layer_ids": [0], "full_attention_layer_ids": [1]}
    return SWAKVPool(
        **rows
        | layers
        | {"head_num": 1, "head_dim": 1, "enable_kv_cache_copy": True}
        | ON_CPU
        | options
    )


def _swa_over_dsa() -> SWAKVPool:
    latent = {"page_size": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64} | ON_CPU
    indexed = latent | {"index_head_dim": 128, "kv_cache_dim": 576}
    return SWAKVPool(
        size=128,
        size_swa=64,
        page_size=64,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=64,
        swa_attention_layer_ids=[0],
        full_attention_layer_ids=[1],
        full_kv_pool_class=DSATokenToKVPool,
        swa_kv_pool_class=MLATokenToKVPool,
        full_kv_pool_kwargs=indexed,
        swa_kv_pool_kwargs=latent,
        **ON_CPU,
    )
