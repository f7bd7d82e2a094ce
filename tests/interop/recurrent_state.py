# pyright: basic, reportMissingImports=false
"""State pools: slots cleared and copied, and what is told of them; faults last."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import torch

from tests.interop.composite_scripts import (
    STATE,
    digest,
    on,
    state_of,
    whole,
)

__all__: list[str] = []


@on(*STATE)
def state_cleared_and_copied(pool: Any) -> object:
    _fill_state(pool)
    pool.clear_slots(torch.tensor([3]))
    pool.copy_from(torch.tensor([1, 2]), torch.tensor([2, 4]))
    pool.copy_from(torch.tensor([1]), torch.tensor([1]))
    return digest(state_of(pool))


def _fill_state(pool: Any) -> None:
    for slot in range(1, 5):
        for tensor in state_of(pool):
            tensor[:, slot] = slot


@on(*STATE)
def state_copied_to_the_host(pool: Any) -> object:
    _fill_state(pool)
    copy = pool.get_cpu_copy(torch.tensor([3, 1]))
    pool.clear_slots(torch.tensor([1, 2, 3, 4]))
    pool.load_cpu_copy(copy, torch.tensor([2, 4]))
    return digest(state_of(pool))


@on(*STATE)
def state_descriptors(pool: Any) -> object:
    infos = pool.get_contiguous_buf_infos()
    ptrs = [layer.data_ptr() for tensor in state_of(pool) for layer in tensor]
    return [
        [ptrs.index(p) for p in infos[0]],
        *infos[1:],
        pool.get_state_layer_ids(),
        pool.get_state_dim_per_tensor(),
        pool.get_state_slice_outer_counts(),
        pool.get_state_conv_shard_groups(),
    ]


@on(*STATE)
def state_tensors(pool: Any) -> object:
    """Names, shapes and dtypes, of the pool and of one layer; and the bytes they take."""
    one = pool.mamba2_layer_cache(1)
    size = whole(pool.get_kv_size_bytes())
    return [_shapes(pool.mamba_cache), _shapes(one), size, pool.size]


def _shapes(cache: Any) -> dict[str, object]:
    assert is_dataclass(cache)
    found = {field.name: getattr(cache, field.name) for field in fields(cache)}
    return {
        name: [f"{list(t.shape)} {t.dtype}" for t in (v if isinstance(v, list) else [v])]
        for name, v in sorted(found.items())
        if v is not None
    }


@on("state")
def a_slot_below_zero_cleared(pool: Any) -> object:
    _fill_state(pool)
    pool.clear_slots(torch.tensor([-1]))
    return pool.mamba_cache.temporal[0, :, 0, 0, 0].tolist()


@on("state")
def state_copied_to_the_reserved_slot(pool: Any) -> object:
    _fill_state(pool)
    pool.copy_from(torch.tensor([2]), torch.tensor([0]))
    return pool.mamba_cache.temporal[0, :, 0, 0, 0].tolist()


@on("state")
def a_position_below_the_first_layer(pool: Any) -> object:
    pool.mamba_cache.temporal[1] = 7
    return pool.mamba2_layer_cache(-1).temporal[1, 0, 0, 0].item()
