# pyright: basic, reportMissingImports=false
"""Where sglang's composites break a clause: short values, theirs and ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

from tests.interop.composite_scripts import (
    layer,
    leaves,
    on,
    rows,
    state_of,
    tensors,
)

__all__: list[str] = []


@on("swa, page 4")
def a_window_layer_given_plain_locations(pool: Any) -> object:
    one = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    pool.set_kv_buffer(layer(0), torch.tensor([5]), one, one)
    return pool.get_key_buffer(0)[:, 0, 0].tolist()


@on("swa, page 4")
def a_full_layer_given_its_own_locations(pool: Any) -> object:
    one = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    where = KVWriteLoc(torch.tensor([5]), full_loc=torch.tensor([6]))
    pool.set_kv_buffer(layer(1), where, one, one)
    return pool.get_key_buffer(1)[5:7, 0, 0].tolist()


@on("swa, page 4")
def a_move_to_a_token_without_a_peer(pool: Any) -> object:
    pool.swa_kv_pool.k_buffer[0][3] = 7
    pool.move_kv_cache(torch.tensor([11]), torch.tensor([5]))
    return pool.get_key_buffer(0)[:4, 0, 0].tolist()


@on("swa, page 4")
def a_move_of_a_token_without_a_peer(pool: Any) -> object:
    pool.swa_kv_pool.k_buffer[0][3] = 7
    pool.move_kv_cache(torch.tensor([5]), torch.tensor([11]))
    return pool.get_key_buffer(0)[:4, 0, 0].tolist()


@on("swa, page 4")
def a_layer_of_another_stage(pool: Any) -> object:
    return pool.get_key_buffer(9)


@on("swa, page 4")
def a_negative_location_translated(pool: Any) -> object:
    return pool.translate_loc_from_full_to_swa(torch.tensor([-1, -8])).tolist()


@on("swa, page 4", "hybrid over mha")
def where_the_stage_ends(pool: Any) -> object:
    return [pool.start_layer, pool.end_layer]


@on("swa, page 4")
def which_layers_are_exported(pool: Any) -> object:
    return pool.get_kv_layer_ids()


@on("swa over dsa and mla", "hybrid over dsa")
def bytes_exported_of_those_owned(pool: Any) -> object:
    owned = sum(t.nbytes for leaf in leaves(pool) for t in tensors(leaf))
    infos = [pool.get_contiguous_buf_infos()]
    infos += [] if state_of(pool) else [pool.get_state_buf_infos()]
    return [sum(sum(lens) for _, lens, _ in infos), owned]


@on("swa over dsa and mla")
def index_keys_asked_for_while_they_load(pool: Any) -> object:
    waited: list[int] = []
    pool.register_layer_transfer_counter(SimpleNamespace(wait_until=waited.append))
    pool.get_index_k_with_scale_buffer(3)
    return waited


@on("swa over dsa and mla")
def latent_window_rows_restored_in_part(pool: Any) -> object:
    """The full leaf has no part in it: its host copy needs CUDA in sglang."""
    pool.full_kv_pool.get_cpu_copy = lambda *_, **__: "rows of full layers"
    pool.full_kv_pool.load_cpu_copy = lambda *_, **__: None
    pool.full_kv_pool.check_cpu_copy = lambda *_, **__: None  # ours asks it first
    pool.swa_kv_pool.kv_buffer[0][3:5] = torch.tensor([7.0, 8.0]).view(2, 1, 1)
    copy = pool.get_cpu_copy(torch.tensor([5, 6]))
    pool.swa_kv_pool.kv_buffer[0].zero_()
    pool.load_cpu_copy(copy, torch.tensor([11, 9]))
    return pool.get_key_buffer(0)[:8, 0, 0].tolist()


@on("hybrid over mha")
def a_copy_restored_without_its_state(pool: Any) -> object:
    copy = pool.get_cpu_copy(torch.tensor([5]), mamba_indices=torch.tensor([1]))
    return pool.load_cpu_copy(copy, torch.tensor([6]))


@on("hybrid over mla")
def the_callers_layer_object_while_it_writes(pool: Any) -> object:
    seen: list[int] = []

    class Watched:
        layer_id = 3

        def __setattr__(self, name: str, value: int) -> None:
            seen.append(value)
            super().__setattr__(name, value)

    k, _ = rows(pool, 1, 0)
    pool.set_kv_buffer(Watched(), torch.tensor([5]), k, k)
    return seen


@on("hybrid over mla")
def latent_parts_given_two_spaces(pool: Any) -> object:
    k, _ = rows(pool, 1, 0)
    where = KVWriteLoc(torch.tensor([5]), full_loc=torch.tensor([6]))
    pool.set_mla_kv_buffer(layer(3), where, k[..., :512], k[..., 512:])
    return [bool(row.any()) for row in pool.get_key_buffer(3)[5:7]]
