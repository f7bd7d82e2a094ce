# pyright: basic, reportMissingImports=false
"""Calls on which sglang's accounts beside the plain ones break a clause, on theirs and on ours.

Each function makes the same calls on what it is given and returns what can be seen;
`differences/accounts.py` names the clause and expects both values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.interop.account_makers import (
    LAYERS,
    our_device,
    our_pure,
    our_rings,
    our_rows,
    our_states,
    params,
    real_device,
    real_pure,
    real_rings,
    real_rows,
    request,
)

__all__ = ["breaks"]


def breaks() -> dict[str, object]:
    """Case -> what sglang's accounts show, and what ours do."""
    cases: dict[Callable[[Any], object], tuple[Any, Any]] = {
        a_peer_of_an_evicted_slot: (real_pure(4), our_pure(4)),
        a_negative_slot_translated: (real_pure(4), our_pure(4)),
        a_tail_of_window_layers_alone: (real_pure(4), our_pure(4)),
        a_window_slot_freed_twice: (real_pure(4), our_pure(4)),
        a_decoded_id_without_pages: (real_device(4, 1), our_device(4, 1)),
        whole_pages_of_a_device_subset: (real_device(4, 4), our_device(4, 4)),
        a_group_over_a_device_subset: (real_device(4, 4), our_device(4, 4)),
        a_prompt_that_goes_on_beside_a_decoded_token: (real_device(4, 4), our_device(4, 4)),
        a_device_page_freed_by_one_of_its_ids: (real_device(4, 4), our_device(4, 4)),
        a_buffer_that_does_not_fit: (real_device(4, 4), our_device(4, 4)),
        state_slots_for_half_of_a_batch: (real_rows(slots=1), our_rows(slots=1)),
        a_batch_of_no_request: (real_rows(), our_rows()),
        rows_after_clear_on_a_decode_instance: (
            real_rows(pre_alloc_size=2),
            our_rows(pre_alloc_size=2),
        ),
        state_slots_asked_of_a_clone: (real_rows(), our_rows()),
        the_size_beside_rings: (real_rings(), our_rings()),
    }
    return {
        case.__name__: {"theirs": _seen(case, real), "ours": _seen(case, ours)}
        for case, (real, ours) in cases.items()
    }


def a_peer_of_an_evicted_slot(allocator: Any) -> object:
    row = allocator.alloc(2)
    allocator.free_swa(row[:1])
    return allocator.translate_loc_from_full_to_swa(row).tolist()


def a_negative_slot_translated(allocator: Any) -> object:
    return allocator.translate_loc_from_full_to_swa(torch.tensor([-1, -5])).tolist()


def a_tail_of_window_layers_alone(allocator: Any) -> object:
    zero, seq = torch.tensor([0]), torch.tensor([4])
    given = allocator.alloc_extend_swa_tail(zero, zero, seq, seq, torch.tensor([-1]), 4, 2)
    return given.tolist()


def a_window_slot_freed_twice(allocator: Any) -> object:
    row = allocator.alloc(2)
    allocator.free_swa(row)
    allocator.free_swa(row)
    return allocator.available_size()


def a_decoded_id_without_pages(allocator: Any) -> object:
    """The id, and how many are free once two of eight are lent."""
    row = _extend(allocator, [], 1)
    seq = torch.tensor([2])
    given = allocator.alloc_decode(seq, seq, torch.tensor(row))
    return [given.tolist(), allocator.logical_attn_allocator.available_size()]


def whole_pages_of_a_device_subset(allocator: Any) -> object:
    return allocator.alloc(8).tolist()


def a_group_over_a_device_subset(allocator: Any) -> object:
    row = _extend(allocator, [], 4)
    allocator.free_group_begin()
    allocator.free(torch.tensor(row))
    inside = allocator.available_size()
    allocator.free_group_end()
    return [inside, allocator.available_size()]


def a_prompt_that_goes_on_beside_a_decoded_token(allocator: Any) -> object:
    """Device slots of the ids that follow; 1 to 3 are on the reserved page."""
    row = _extend(allocator, [], 1)
    seq = torch.tensor([2])
    row += allocator.alloc_decode(seq, seq, torch.tensor(row)).tolist()
    row += _extend(allocator, row, 2)
    return allocator.full_to_hisparse_device_index_mapping[torch.tensor(row)].tolist()


def a_device_page_freed_by_one_of_its_ids(allocator: Any) -> object:
    """Device slots of a page's ids, and those of the next request."""
    row = _extend(allocator, [], 4)
    allocator.free_hisparse(torch.tensor(row[:1]))
    other = _extend(allocator, [], 4)
    table = allocator.full_to_hisparse_device_index_mapping
    return [table[torch.tensor(row)].tolist(), table[torch.tensor(other)].tolist()]


def a_buffer_that_does_not_fit(allocator: Any) -> object:
    """None or the error; and the device slots that the request still has."""
    row = torch.tensor(_extend(allocator, [], 4))
    told: object = None
    try:
        told = allocator.alloc_device_buffer(row, 20)
    except AssertionError:
        told = "AssertionError"
    table = allocator.full_to_hisparse_device_index_mapping
    return [told, table[row].tolist(), allocator.hisparse_attn_allocator.available_size()]


def state_slots_for_half_of_a_batch(pool: Any) -> object:
    """None or the error; rows and state slots that are free, and who was given a row."""
    held = [request(), request()]
    told: object = None
    try:
        told = pool.alloc(held)
    except AssertionError:
        told = "AssertionError"
    free = pool.available_size(), pool.mamba_allocator.available_size()
    return [told, *free, [each.kv.req_pool_idx for each in held]]


def a_batch_of_no_request(pool: Any) -> object:
    try:
        return pool.alloc([])
    except RuntimeError:
        return "RuntimeError"


def rows_after_clear_on_a_decode_instance(pool: Any) -> object:
    """The state slot of a row that nobody has."""
    row = pool.alloc([request()])
    pool.clear()
    return pool.get_mamba_indices(torch.tensor(row)).tolist()


def state_slots_asked_of_a_clone(pool: Any) -> object:
    """Free state slots by the table and by its clone, while a request has one."""
    pool.alloc([request()])
    clone = _clone(pool)
    return [pool.mamba_allocator.available_size(), clone.mamba_allocator.available_size()]


def _clone(pool: Any) -> Any:
    if hasattr(pool, "mamba_pool_cls"):
        return pool.clone_with_new_mamba(
            mamba_size=9,
            mamba_spec_state_size=4,
            cache_params=params(),
            device="cpu",
            enable_mamba_extra_buffer=False,
            draft_model_idx=0,
        )
    return pool.clone_with_new_mamba(mamba_pool=our_states(9, LAYERS[0]))


def the_size_beside_rings(allocator: Any) -> object:
    """`size`, and what is available before anything was lent."""
    return [allocator.size, allocator.available_size()]


def _extend(allocator: Any, row: list[int], more: int) -> list[int]:
    prefix, seq = torch.tensor([len(row)]), torch.tensor([len(row) + more])
    last = torch.tensor(row[-1:] or [-1])
    given = allocator.alloc_extend(prefix, prefix, seq, seq, last, more)
    return [int(slot) for slot in given]


def _seen(case: Callable[[Any], object], made: Any) -> object:
    try:
        return case(made)
    except (ValueError, NotImplementedError, AssertionError) as error:
        return type(error).__name__
