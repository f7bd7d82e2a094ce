"""Rows of requests: handed out whole, once, and with a new generation each time."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kvproto.protocols import RequestPool, explain
from kvproto.reference.request_pool import ReqToToken

RAN: Counter[str] = Counter()


def request(row: int | None = None) -> Any:
    return SimpleNamespace(kv=SimpleNamespace(req_pool_idx=row))


def make(size: int = 3, **options: Any) -> ReqToToken:
    return ReqToToken(size, max_context_len=8, device="cpu", enable_memory_saver=False, **options)


def test_is_one_by_declaration() -> None:
    pool = make()
    assert isinstance(pool, RequestPool)
    assert explain(ReqToToken, RequestPool) == explain(pool, RequestPool) == []


def test_tables_have_a_row_for_padding() -> None:
    pool = make(pre_alloc_size=2)
    assert (pool.size, pool.pre_alloc_size, pool.available_size()) == (3, 2, 5)
    assert (pool.req_to_token.shape, pool.req_to_token.dtype) == ((6, 8), torch.int32)
    assert (pool.req_generation.shape, pool.req_generation.dtype) == ((6,), torch.int64)
    assert make().req_to_token.shape == (4, 8)
    assert make().pre_alloc_size == 0


def test_a_request_keeps_the_row_it_has() -> None:
    pool, first, second = make(), request(), request()
    rows = pool.alloc([first])
    assert rows == [first.kv.req_pool_idx]
    assert pool.alloc([second, first]) == [second.kv.req_pool_idx, first.kv.req_pool_idx]
    assert [first.kv.req_pool_idx] == rows
    assert pool.available_size() == 1
    assert pool.req_generation.sum() == 2


def test_all_or_nothing() -> None:
    pool, held = make(), request()
    pool.alloc([held])
    before, waiting = held.kv.req_pool_idx, [request() for _ in range(3)]
    assert pool.alloc([held, *waiting]) is None
    assert [r.kv.req_pool_idx for r in (held, *waiting)] == [before, None, None, None]
    assert pool.available_size() == 2
    assert pool.alloc([]) == []


def test_a_request_named_twice_gets_one_row() -> None:
    pool, one = make(), request()
    rows = pool.alloc([one, one])
    assert rows is not None
    assert rows[0] == rows[1]
    assert pool.available_size() == 2


def test_a_row_goes_back_once() -> None:
    pool, one = make(), request()
    pool.alloc([one])
    row = one.kv.req_pool_idx
    pool.free(one)
    assert one.kv.req_pool_idx is None
    for stranger in (None, row, 0, -1, 4):
        with pytest.raises(ValueError, match=f"row {stranger} is not handed out"):
            pool.free(request(stranger))
    assert pool.available_size() == 3


def test_entries_stay_and_generations_go_on() -> None:
    pool, one = make(size=1), request()
    pool.alloc([one])
    pool.write((1, slice(0, 3)), torch.tensor([7, 8, 9], dtype=torch.int32))
    pool.free(one)
    pool.clear()
    assert pool.req_to_token[1].tolist() == [7, 8, 9, 0, 0, 0, 0, 0]
    pool.alloc([one := request()])
    assert pool.req_generation.tolist() == [0, 2]


def test_writes_take_what_indexing_takes() -> None:
    pool = make()
    pool.write((2, slice(1, 3)), torch.tensor([5, 6]))
    pool.write((torch.tensor([0, 3]), torch.tensor([7, 0])), torch.tensor([1, 2]))
    assert pool.req_to_token[2].tolist() == [0, 5, 6, 0, 0, 0, 0, 0]
    assert (int(pool.req_to_token[0, 7]), int(pool.req_to_token[3, 0])) == (1, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 0}, "size=0: must be at least 1"),
        ({"max_context_len": 0}, "max_context_len=0: must be at least 1"),
        ({"pre_alloc_size": -1}, "pre_alloc_size=-1: must be at least 0"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, Any], words: str) -> None:
    keywords: dict[str, Any] = {
        "size": 1,
        "max_context_len": 1,
        "device": "cpu",
        "enable_memory_saver": False,
    }
    with pytest.raises(ValueError, match=words):
        ReqToToken(**(keywords | changes))


class Rows(RuleBasedStateMachine):
    """Against a dictionary request -> row."""

    @initialize(size=st.integers(1, 4), pre_alloc_size=st.integers(0, 2))
    def build(self, size: int, pre_alloc_size: int) -> None:
        self.pool = make(size, pre_alloc_size=pre_alloc_size)
        self.rows = size + pre_alloc_size
        self.holding: list[Any] = []
        self.generations = [0] * (self.rows + 1)

    @rule(new=st.integers(0, 4), again=st.booleans())
    def alloc(self, new: int, again: bool) -> None:
        asked = [request() for _ in range(new)]
        kept = self.holding[:2] if again else []
        rows, fits = self.pool.alloc([*kept, *asked]), new <= self.rows - len(self.holding)
        RAN["alloc" if fits else "alloc too many"] += 1
        assert (rows is not None) == fits
        if rows is None:
            assert all(each.kv.req_pool_idx is None for each in asked)
            return
        assert rows == [each.kv.req_pool_idx for each in (*kept, *asked)]
        for row in rows[len(kept) :]:
            self.generations[row] += 1
        self.holding += asked

    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        if self.holding:
            RAN["free"] += 1
            self.pool.free(self.holding.pop(data.draw(st.integers(0, len(self.holding) - 1))))

    @rule()
    def free_again(self) -> None:
        RAN["free again"] += 1
        with pytest.raises(ValueError, match="not handed out"):
            self.pool.free(request())

    @rule()
    def clear(self) -> None:
        RAN["clear"] += 1
        self.pool.clear()
        self.holding = []

    @invariant()
    def rows_have_one_owner(self) -> None:
        if not hasattr(self, "pool"):
            return
        held = [each.kv.req_pool_idx for each in self.holding]
        assert len(set(held)) == len(held)
        assert all(1 <= row <= self.rows for row in held)
        assert self.pool.available_size() == self.rows - len(held)
        assert self.pool.req_generation.tolist() == self.generations


def test_rows_follow_the_model() -> None:
    RAN.clear()
    run_state_machine_as_test(
        Rows, settings=settings(max_examples=60, stateful_step_count=30, derandomize=True)
    )
    assert set(RAN) == {"alloc", "alloc too many", "free", "free again", "clear"}
