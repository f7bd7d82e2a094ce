# pyright: basic, reportMissingImports=false
"""The same calls on sglang's composites and state pools and on ours, and what each then holds.

A script is run on both pools of each of its families. Tensors are told as a digest of their
bytes where the two ought to be equal, and as short lists where they are known to differ;
`test_composites.py` says which is which, and by what clause.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

from tests.interop.composite_pools import FAMILIES, FULL, WINDOW

__all__ = ["observed"]

Script = Callable[[Any], object]
SCRIPTS: dict[str, tuple[tuple[str, ...], Script]] = {}
HEADS = ("swa, page 1", "swa, page 4", "swa, values narrower")
SWA = (*HEADS, "swa, fp8")
HYBRID = ("hybrid over mha", "hybrid over mla", "hybrid over dsa")
THEIRS = ("swa over sglang's leaves", "hybrid over sglang's parts")
STATE = ("state", "state, speculative")


def observed() -> dict[str, object]:
    """ "Script; family" -> what sglang's pool shows -> and ours; an exception by its name."""
    found: dict[str, object] = {}
    for name, (families, script) in SCRIPTS.items():
        for family in families:
            theirs, ours = (_told(script, make()) for make in FAMILIES[family])
            found[f"{name}; {family}"] = {"theirs": theirs, "ours": ours}
    return found


def _on(*families: str) -> Callable[[Script], Script]:
    def add(script: Script) -> Script:
        SCRIPTS[script.__name__.replace("_", " ")] = (families, script)
        return script

    return add


def _told(script: Script, pool: Any) -> object:
    try:
        return script(pool)
    except Exception as error:
        return type(error).__name__


def _layer(layer_id: int) -> Any:
    return SimpleNamespace(layer_id=layer_id)


def _digest(tensors: list[torch.Tensor]) -> list[str]:
    return [
        f"{list(t.shape)} {t.dtype} "
        + hashlib.sha256(t.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        for t in tensors
    ]


def _tensors(thing: Any) -> list[torch.Tensor]:
    """Every buffer of a leaf, by the names that both sides give them."""
    names = ("k_buffer", "v_buffer", "kv_buffer", "index_k_with_scale_buffer")
    return [buffer for name in names for buffer in getattr(thing, name, ())]


def _leaves(pool: Any) -> list[Any]:
    names = ("full_kv_pool", "swa_kv_pool")
    return [leaf for name in names if (leaf := getattr(pool, name, None)) is not None]


def _state(pool: Any) -> list[torch.Tensor]:
    pool = getattr(pool, "mamba_pool", pool)
    cache = getattr(pool, "mamba_cache", None)
    return [] if cache is None else [*cache.conv, cache.temporal]


def _bytes(pool: Any) -> list[str]:
    return _digest([t for leaf in _leaves(pool) for t in _tensors(leaf)] + _state(pool))


def _rows(pool: Any, n: int, salt: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(salt)
    k, v = pool.get_kv_buffer(FULL[0])
    if hasattr(pool, "kv_lora_rank") or not hasattr(_leaves(pool)[0], "head_num"):
        v = k
    keys, values = (
        torch.randn((n, *buffer.shape[1:]), generator=generator).bfloat16() for buffer in (k, v)
    )
    return keys, values


def _layers_of(pool: Any) -> list[int]:
    return sorted(getattr(pool, "layers_mapping", None) or pool.full_attention_layer_id_mapping)


def _fill(pool: Any, slots: list[int] = [5, 6, 7, 8, 9]) -> None:  # noqa: B006
    """Rows into every layer; window layers get theirs where there is a peer."""
    loc = torch.tensor(slots)
    for layer_id in _layers_of(pool):
        k, v = _rows(pool, len(slots), layer_id)
        given, swa = loc, None
        if layer_id in WINDOW:
            # A row that goes nowhere is another matter: leave it out.
            swa = pool.translate_loc_from_full_to_swa(loc)
            kept = swa > 0
            given, swa, k, v = loc[kept], swa[kept], k[kept], v[kept]
        pool.set_kv_buffer(_layer(layer_id), KVWriteLoc(given, swa_loc=swa), k, v)
    for index, tensor in enumerate(_state(pool)):
        generator = torch.Generator().manual_seed(100 + index)
        tensor[:, 1:] = torch.randn(tensor[:, 1:].shape, generator=generator).to(tensor.dtype)


@_on(*SWA, *HYBRID, *THEIRS, "swa over dsa and mla")
def rows_written(pool: Any) -> object:
    _fill(pool)
    return _bytes(pool)


@_on("swa over dsa and mla", "hybrid over mla", "hybrid over dsa")
def latent_parts_written(pool: Any) -> object:
    loc = torch.tensor([5, 6])
    for layer_id in _layers_of(pool):
        k, _ = _rows(pool, 2, layer_id)
        swa = torch.tensor([3, 4]) if layer_id in WINDOW else None
        where = KVWriteLoc(loc, swa_loc=swa)
        pool.set_mla_kv_buffer(_layer(layer_id), where, k[..., :512], k[..., 512:])
    return _bytes(pool)


@_on("swa over dsa and mla", "hybrid over dsa")
def index_keys_written(pool: Any) -> object:
    loc = torch.tensor([5, 70])
    keys = torch.arange(256).view(2, 128).remainder(100).float().to(torch.float8_e4m3fn)
    pool.set_index_k_scale_buffer(3, loc, keys, torch.tensor([[0.5], [2.0]]))
    return _bytes(pool), _digest([pool.get_index_k_with_scale_buffer(3)])


@_on(*SWA)
def locations_translated(pool: Any) -> object:
    found = pool.translate_loc_from_full_to_swa(torch.tensor([[-1, 0, 5], [6, 9, 11]]))
    return found.tolist(), str(found.dtype)


@_on(*SWA, *HYBRID, *THEIRS)
def tokens_moved(pool: Any) -> object:
    """Chains of slots; all of them are inside the window."""
    _fill(pool)
    pool.move_kv_cache(torch.tensor([6, 7, 9]), torch.tensor([5, 6, 7]))
    return _bytes(pool)


@_on(*SWA, "hybrid over mha", "hybrid over mla", "hybrid over sglang's parts")
def tokens_copied_to_the_host(pool: Any) -> object:
    """Three tokens, of which one had left the window; restored, another one has."""
    _fill(pool)
    slots = {"mamba_indices": torch.tensor([2, 3])} if _state(pool) else {}
    copy = pool.get_cpu_copy(torch.tensor([5, 6, 8]), **slots)
    for tensor in [t for leaf in _leaves(pool) for t in _tensors(leaf)] + _state(pool):
        tensor.zero_()
    slots = {"mamba_indices": torch.tensor([4, 1])} if slots else {}
    pool.load_cpu_copy(copy, torch.tensor([9, 10, 7]), **slots)
    return _bytes(pool)


@_on(*SWA, *THEIRS, "hybrid over mha", "hybrid over mla")
def descriptors(pool: Any) -> object:
    """Pointers as places in the list of buffers: the order is part of the answer."""
    ptrs = [t.data_ptr() for leaf in _leaves(pool) for t in _tensors(leaf)]
    ptrs += [layer.data_ptr() for tensor in _state(pool) for layer in tensor]
    told = [pool.get_contiguous_buf_infos(), pool.get_state_buf_infos()]
    return [[[ptrs.index(p) for p in infos[0]], *infos[1:]] for infos in told]


@_on(*SWA, *HYBRID, *THEIRS, "swa over dsa and mla")
def sizes_and_names(pool: Any) -> object:
    numbers = ("size", "size_swa", "page_size", "swa_layer_nums", "full_layer_nums")
    mappings = ("layers_mapping", "full_attention_layer_id_mapping")
    return {
        "bytes": sum(_whole(pool.get_kv_size_bytes())),
        "numbers": [getattr(pool, name, None) for name in numbers],
        "GiB": float(pool.mem_usage),
        "mappings": [sorted(getattr(pool, name, {}).items()) for name in mappings],
        "dtype": str(pool.dtype),
    }


def _whole(size: Any) -> list[int]:
    """Plain integers, one or two: sglang's are numpy's."""
    return [int(part) for part in (size if isinstance(size, tuple) else (size,))]


@_on(*HYBRID)
def state_regions(pool: Any) -> object:
    return [
        pool.get_state_layer_ids(),
        pool.get_state_dim_per_tensor(),
        pool.get_state_slice_outer_counts(),
        pool.get_state_conv_shard_groups(),
        pool.get_state_buf_infos()[1:],
        pool.cpu_copy_carries_mamba,
    ]


@_on("hybrid over mha", "hybrid over mla")
def layer_ids_of_regions(pool: Any) -> object:
    return pool.get_kv_layer_ids()


@_on(*HEADS, "hybrid over mha")
def width_of_a_value(pool: Any) -> object:
    return pool.get_v_head_dim()


@_on(*STATE)
def state_cleared_and_copied(pool: Any) -> object:
    _fill_state(pool)
    pool.clear_slots(torch.tensor([3]))
    pool.copy_from(torch.tensor([1, 2]), torch.tensor([2, 4]))
    pool.copy_from(torch.tensor([1]), torch.tensor([1]))
    return _digest(_state(pool))


def _fill_state(pool: Any) -> None:
    for slot in range(1, 5):
        for tensor in _state(pool):
            tensor[:, slot] = slot


@_on(*STATE)
def state_copied_to_the_host(pool: Any) -> object:
    _fill_state(pool)
    copy = pool.get_cpu_copy(torch.tensor([3, 1]))
    pool.clear_slots(torch.tensor([1, 2, 3, 4]))
    pool.load_cpu_copy(copy, torch.tensor([2, 4]))
    return _digest(_state(pool))


@_on(*STATE)
def state_descriptors(pool: Any) -> object:
    infos = pool.get_contiguous_buf_infos()
    ptrs = [layer.data_ptr() for tensor in _state(pool) for layer in tensor]
    return [
        [ptrs.index(p) for p in infos[0]],
        *infos[1:],
        pool.get_state_layer_ids(),
        pool.get_state_dim_per_tensor(),
        pool.get_state_slice_outer_counts(),
        pool.get_state_conv_shard_groups(),
    ]


@_on(*STATE)
def state_tensors(pool: Any) -> object:
    """Names, shapes and dtypes, of the pool and of one layer; and the bytes they take."""
    one = pool.mamba2_layer_cache(1)
    size = _whole(pool.get_kv_size_bytes())
    return [_shapes(pool.mamba_cache), _shapes(one), size, pool.size]


def _shapes(cache: Any) -> dict[str, object]:
    assert is_dataclass(cache)
    found = {field.name: getattr(cache, field.name) for field in fields(cache)}
    return {
        name: [f"{list(t.shape)} {t.dtype}" for t in (v if isinstance(v, list) else [v])]
        for name, v in sorted(found.items())
        if v is not None
    }


# Where sglang breaks a clause: short values, theirs and ours.


@_on("swa, page 4")
def a_window_layer_given_plain_locations(pool: Any) -> object:
    one = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    pool.set_kv_buffer(_layer(0), torch.tensor([5]), one, one)
    return pool.get_key_buffer(0)[:, 0, 0].tolist()


@_on("swa, page 4")
def a_full_layer_given_its_own_locations(pool: Any) -> object:
    one = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    where = KVWriteLoc(torch.tensor([5]), full_loc=torch.tensor([6]))
    pool.set_kv_buffer(_layer(1), where, one, one)
    return pool.get_key_buffer(1)[5:7, 0, 0].tolist()


@_on("swa, page 4")
def a_move_to_a_token_without_a_peer(pool: Any) -> object:
    pool.swa_kv_pool.k_buffer[0][3] = 7
    pool.move_kv_cache(torch.tensor([11]), torch.tensor([5]))
    return pool.get_key_buffer(0)[:4, 0, 0].tolist()


@_on("swa, page 4")
def a_move_of_a_token_without_a_peer(pool: Any) -> object:
    pool.swa_kv_pool.k_buffer[0][3] = 7
    pool.move_kv_cache(torch.tensor([5]), torch.tensor([11]))
    return pool.get_key_buffer(0)[:4, 0, 0].tolist()


@_on("swa, page 4")
def a_layer_of_another_stage(pool: Any) -> object:
    return pool.get_key_buffer(9)


@_on("swa, page 4")
def a_negative_location_translated(pool: Any) -> object:
    return pool.translate_loc_from_full_to_swa(torch.tensor([-1, -8])).tolist()


@_on("swa, page 4", "hybrid over mha")
def where_the_stage_ends(pool: Any) -> object:
    return [pool.start_layer, pool.end_layer]


@_on("swa, page 4")
def which_layers_are_exported(pool: Any) -> object:
    return pool.get_kv_layer_ids()


@_on("swa over dsa and mla", "hybrid over dsa")
def bytes_exported_of_those_owned(pool: Any) -> object:
    owned = sum(t.nbytes for leaf in _leaves(pool) for t in _tensors(leaf))
    infos = [pool.get_contiguous_buf_infos()]
    infos += [] if _state(pool) else [pool.get_state_buf_infos()]
    return [sum(sum(lens) for _, lens, _ in infos), owned]


@_on("swa over dsa and mla")
def index_keys_asked_for_while_they_load(pool: Any) -> object:
    waited: list[int] = []
    pool.register_layer_transfer_counter(SimpleNamespace(wait_until=waited.append))
    pool.get_index_k_with_scale_buffer(3)
    return waited


@_on("swa over dsa and mla")
def latent_window_rows_restored_in_part(pool: Any) -> object:
    """The full leaf has no part in it: its host copy needs CUDA in sglang."""
    pool.full_kv_pool.get_cpu_copy = lambda *_, **__: None
    pool.full_kv_pool.load_cpu_copy = lambda *_, **__: None
    pool.swa_kv_pool.kv_buffer[0][3:5] = torch.tensor([7.0, 8.0]).view(2, 1, 1)
    copy = pool.get_cpu_copy(torch.tensor([5, 6]))
    pool.swa_kv_pool.kv_buffer[0].zero_()
    pool.load_cpu_copy(copy, torch.tensor([11, 9]))
    return pool.get_key_buffer(0)[:8, 0, 0].tolist()


@_on("hybrid over mha")
def a_copy_restored_without_its_state(pool: Any) -> object:
    copy = pool.get_cpu_copy(torch.tensor([5]), mamba_indices=torch.tensor([1]))
    return pool.load_cpu_copy(copy, torch.tensor([6]))


@_on("hybrid over mla")
def the_callers_layer_object_while_it_writes(pool: Any) -> object:
    seen: list[int] = []

    class Watched:
        layer_id = 3

        def __setattr__(self, name: str, value: int) -> None:
            seen.append(value)
            super().__setattr__(name, value)

    k, _ = _rows(pool, 1, 0)
    pool.set_kv_buffer(Watched(), torch.tensor([5]), k, k)
    return seen


@_on("hybrid over mla")
def latent_parts_given_two_spaces(pool: Any) -> object:
    k, _ = _rows(pool, 1, 0)
    where = KVWriteLoc(torch.tensor([5]), full_loc=torch.tensor([6]))
    pool.set_mla_kv_buffer(_layer(3), where, k[..., :512], k[..., 512:])
    return [bool(row.any()) for row in pool.get_key_buffer(3)[5:7]]


@_on("state")
def a_slot_below_zero_cleared(pool: Any) -> object:
    _fill_state(pool)
    pool.clear_slots(torch.tensor([-1]))
    return pool.mamba_cache.temporal[0, :, 0, 0, 0].tolist()


@_on("state")
def state_copied_to_the_reserved_slot(pool: Any) -> object:
    _fill_state(pool)
    pool.copy_from(torch.tensor([2]), torch.tensor([0]))
    return pool.mamba_cache.temporal[0, :, 0, 0, 0].tolist()


@_on("state")
def a_position_below_the_first_layer(pool: Any) -> object:
    pool.mamba_cache.temporal[1] = 7
    return pool.mamba2_layer_cache(-1).temporal[1, 0, 0, 0].item()
