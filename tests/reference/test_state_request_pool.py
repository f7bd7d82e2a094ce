"""Rows that come with state slots: who keeps which, and what is refused."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from kvproto.conformance.models import StateRowsMachine
from kvproto.conformance.state_rows_bench import StateRowsBench
from kvproto.protocols import (
    CapabilityError,
    RequestPool,
    RequestPoolRequest,
    StatePoolRequest,
    StateRequestPool,
    StateRequestPoolRequest,
    explain,
)
from kvproto.reference import RecurrentStatePool, StateReqToToken, StateSlots
from kvproto.reference.build_any import build_reference


def states(size: int, *layer_ids: int) -> RecurrentStatePool:
    return RecurrentStatePool(
        size=size,
        mamba_layer_ids=layer_ids,
        conv_state_shape=((2, 3),),
        temporal_state_shape=(2, 2),
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )


def table(rows: int = 3, slots: int = 6, extra: bool = False, **options: Any) -> StateReqToToken:
    return StateReqToToken(
        size=rows,
        max_context_len=8,
        device="cpu",
        enable_memory_saver=False,
        mamba_pool=options.pop("mamba_pool", states(slots, 4, 6)),
        mamba_allocator=StateSlots(slots, "cpu"),
        enable_mamba_extra_buffer=extra,
        **options,
    )


def request() -> Any:
    """The engine's request as its own pool expects it before the first row."""
    return SimpleNamespace(
        kv=SimpleNamespace(
            req_pool_idx=None, mamba_pool_idx=None, mamba_ping_pong_track_buffer=None
        )
    )


def main_slots(pool: StateReqToToken, *rows: int) -> list[int]:
    return [int(slot) for slot in pool.get_mamba_indices(torch.tensor(rows))]


def test_is_one_by_declaration() -> None:
    for protocol in (RequestPool, StateRequestPool):
        assert explain(StateReqToToken, protocol) == explain(table(), protocol) == []


def test_rows_come_with_slots_in_turn() -> None:
    pool, held = table(pre_alloc_size=1), [request() for _ in range(4)]
    assert pool.alloc(held[:2]) == [3, 4]
    assert main_slots(pool, 0, 3, 4) == [0, 1, 2]
    assert [held[0].kv.mamba_needs_clear, int(held[1].kv.mamba_pool_idx)] == [True, 2]
    assert pool.alloc(held) == [3, 4, 1, 2]
    assert main_slots(pool, 1, 2, 3, 4) == [3, 4, 1, 2]
    assert pool.mamba_allocator.available_size() == 2


def test_a_request_named_twice_gets_one_of_each() -> None:
    pool, one = table(), request()
    assert pool.alloc([one, one]) == [3, 3]
    assert (pool.available_size(), pool.mamba_allocator.available_size()) == (2, 5)


def test_a_prefix_gives_its_state_to_a_fork() -> None:
    """The engine allocates and copies before the row is asked for."""
    pool, fork = table(), request()
    cached = pool.mamba_allocator.alloc(1)
    mine = pool.mamba_allocator.alloc(1)
    assert cached is not None
    assert mine is not None
    pool.mamba_pool.mamba2_layer_cache(1).temporal[1] = 5.0
    pool.copy_mamba_state(cached, mine)
    fork.kv.mamba_pool_idx = mine[0]
    assert pool.alloc([fork]) == [3]
    assert main_slots(pool, 3) == [2]
    assert not hasattr(fork.kv, "mamba_needs_clear")
    assert pool.mamba2_layer_cache(6).temporal[2].tolist() == [[5.0, 5.0], [5.0, 5.0]]
    assert pool.mamba2_layer_cache(4).temporal[2].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("options", "given", "last", "needs"),
    [
        ({}, [2, 3], 1, 3),
        ({"enable_overlap_schedule": False}, [2], 0, 2),
        ({"enable_mamba_extra_buffer_lazy": True}, [2, -1], 0, 2),
    ],
)
def test_snapshot_slots_come_after_the_requests_own(
    options: dict[str, Any], given: list[int], last: int, needs: int
) -> None:
    pool, one = table(extra=True, **options), request()
    pool.alloc([one])
    assert one.kv.mamba_ping_pong_track_buffer.tolist() == given
    assert one.kv.mamba_ping_pong_empty == [slot < 0 for slot in given]
    assert (one.kv.mamba_next_track_idx, pool.get_mamba_ping_pong_keep_idx(one)) == (0, last)
    mapping = pool.req_index_to_mamba_ping_pong_track_buffer_mapping
    assert mapping is not None
    assert mapping[3].tolist() == given
    assert pool.mamba_allocator.available_size() == 6 - needs


def test_a_snapshot_is_donated_and_replaced() -> None:
    pool, one = table(extra=True, enable_mamba_extra_buffer_lazy=True), request()
    pool.alloc([one])
    mapping = pool.req_index_to_mamba_ping_pong_track_buffer_mapping
    new = pool.mamba_allocator.alloc(1)
    assert new is not None
    assert mapping is not None
    assert pool.donate_mamba_ping_pong_slot(one, new).tolist() == [2]
    assert mapping[3].tolist() == [3, -1]
    pool.set_mamba_ping_pong_slot(one, 0, -1)
    assert mapping[3].tolist() == [-1, -1]
    assert one.kv.mamba_ping_pong_empty == [True, True]
    with pytest.raises(ValueError, match="position 0 of the request has no snapshot slot"):
        pool.donate_mamba_ping_pong_slot(one, new)
    pool.set_mamba_ping_pong_slot(one, 1, new[0])
    pool.free_mamba_cache(one)
    # Slot 2 was donated, and is the prefix cache's; 1 and 3 came back.
    assert pool.mamba_allocator.available_size() == 5
    assert mapping[3].tolist() == [0, 0]


def test_what_is_kept_stays_owned_and_the_row_has_no_slot() -> None:
    pool, one = table(extra=True), request()
    pool.alloc([one])
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=rf"to_keep={wrong}: .* \[0, 1\]; nothing was freed"):
            pool.free_mamba_cache(one, wrong)
    pool.free_mamba_cache(one, 1)
    assert pool.mamba_allocator.available_size() == 5
    assert main_slots(pool, 3) == [0]
    assert one.kv.mamba_ping_pong_track_buffer is None
    with pytest.raises(ValueError, match="no state slot: freed before"):
        pool.free_mamba_cache(one)
    pool.free(one)
    assert pool.alloc([one]) == [3]
    given: Any = one.kv.mamba_ping_pong_track_buffer
    assert sorted([*main_slots(pool, 3), *given.tolist()]) == [4, 5, 6]


def test_without_extra_buffers_there_is_nothing_to_keep() -> None:
    pool, one = table(), request()
    pool.alloc([one])
    with pytest.raises(ValueError, match="to_keep=0: there are no extra buffers"):
        pool.free_mamba_cache(one, 0)
    with pytest.raises(ValueError, match="enable_mamba_extra_buffer is off"):
        pool.set_mamba_ping_pong_slot(one, 0, -1)
    with pytest.raises(ValueError, match="value=4: give a slot as a tensor"):
        pool.set_mamba_ping_pong_slot(one, 0, 4)
    assert pool.mamba_allocator.available_size() == 5


def test_too_few_state_slots_leave_the_batch_as_it_was() -> None:
    pool, held = table(slots=5, extra=True), [request() for _ in range(2)]
    assert pool.alloc(held) is None
    assert [each.kv.req_pool_idx for each in held] == [None, None]
    assert (pool.available_size(), pool.mamba_allocator.available_size()) == (3, 5)
    assert pool.req_generation.tolist() == [0, 0, 0, 0]


class Counts:
    """A load from the host tier that notes who waits for which layer."""

    def __init__(self) -> None:
        self.waited: list[int] = []

    def wait_until(self, threshold: int, /) -> None:
        self.waited.append(threshold)


def test_state_is_read_and_copied_once_it_is_loaded() -> None:
    pool, counter = table(start_layer=3), Counts()
    pool.register_layer_transfer_counter(counter)
    pool.mamba2_layer_cache(4)
    pool.copy_mamba_state(torch.tensor([1]), torch.tensor([2]))
    pool.copy_mamba_state(torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64))
    assert counter.waited == [1, 3]
    with pytest.raises(ValueError, match=r"layer_id=1 keeps no state here; \[4, 6\] do"):
        pool.mamba2_layer_cache(1)


def test_a_clone_has_state_of_its_own_and_the_same_rows() -> None:
    pool, one = table(extra=True), request()
    draft = pool.clone_with_new_mamba(mamba_pool=states(6, 0))
    assert isinstance(draft, StateRequestPool)
    pool.alloc([one])
    assert main_slots(draft, 3) == main_slots(pool, 3) == [1]
    assert draft.available_size() == 2
    draft.mamba2_layer_cache(0).temporal[1] = 2.0
    assert float(pool.mamba2_layer_cache(4).temporal.abs().max()) == 0.0
    with pytest.raises(ValueError, match="layer_id=4 keeps no state here"):
        draft.mamba2_layer_cache(4)
    pool.clear()
    assert draft.available_size() == 3
    assert draft.mamba_allocator.available_size() == 6
    assert draft.alloc([request()]) == [3]
    assert pool.available_size() == 2
    with pytest.raises(ValueError, match=r"size=6: the state pool has 5 slots"):
        pool.clone_with_new_mamba(mamba_pool=states(5, 0))


def test_parts_must_be_what_they_are_used_as() -> None:
    with pytest.raises(CapabilityError, match="a request table with state"):
        table(mamba_pool=StateSlots(6, "cpu"))
    with pytest.raises(ValueError, match=r"mamba_allocator\.size=6: the state pool has 4 slots"):
        table(mamba_pool=states(4, 1))


def asked(
    rows: int = 3, pre: int = 0, slots: int = 9, positions: Any = 2, initial: Any = 0
) -> StateRequestPoolRequest:
    return StateRequestPoolRequest(
        rows=RequestPoolRequest(size=rows, max_context_len=4, device="cpu", pre_alloc_size=pre),
        state=StatePoolRequest(
            size=slots,
            mamba_layer_ids=(1,),
            conv_state_shape=((1, 2),),
            temporal_state_shape=(1,),
            conv_dtype=torch.float32,
            ssm_dtype=torch.float32,
            device="cpu",
        ),
        mamba_ping_pong_track_buffer_size=positions,
        mamba_initial_tracking_slots=initial,
    )


def test_a_request_builds_one() -> None:
    built = build_reference(asked(rows=2, pre=1, initial=1))
    assert isinstance(built, StateReqToToken)
    assert (built.size, built.pre_alloc_size, built.mamba_pool.size) == (2, 1, 9)
    assert built.enable_mamba_extra_buffer_lazy
    assert (built.mamba_ping_pong_track_buffer_size, built.mamba_initial_tracking_slots) == (2, 1)
    for positions, initial in ((1, 2), (3, 0), (2, -1)):
        with pytest.raises(ValueError, match="must be at most mamba_ping_pong_track_buffer_size"):
            asked(positions=positions, initial=initial)


def fresh(rows: int, pre: int, slots: int, tracking: tuple[int, int]) -> StateRowsBench:
    request = asked(rows, pre, slots, *tracking)
    return StateRowsBench(request, build_reference(request))


class Tables(StateRowsMachine):
    """On tables of many sizes, some with fewer state slots than rows."""

    subjects = st.builds(
        fresh,
        rows=st.integers(1, 4),
        pre=st.integers(0, 2),
        slots=st.integers(1, 12),
        tracking=st.sampled_from(((2, 0), (2, 2), (1, 1), (2, 1))),
    )
    ran: ClassVar = Counter[str]()
    calls: ClassVar = list[str]()


def test_owners_follow_the_model() -> None:
    Tables.ran.clear()
    run_state_machine_as_test(
        Tables,
        settings=settings(max_examples=80, stateful_step_count=40, deadline=None, derandomize=True),
    )
    assert set(Tables.ran) == Tables.RULES
