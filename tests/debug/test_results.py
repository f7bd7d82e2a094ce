"""What pools return: each clause with a pool that breaks it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.debug import validate
from kvproto.protocols import PoolTraits
from tests.debug.toy import HEADS, KEY, PAGE, SIZE, VALUE, ToyPool, locations, refusal

ROWS = SIZE + PAGE


def lying(member: str, answer: Any) -> Any:
    pool = ToyPool()
    pool.answers[member] = answer
    return validate(pool)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "return value: expected Tensor, got None"),
        (torch.zeros(ROWS, HEADS, VALUE), "expected shape [10, 2, 4], got float32[10, 2, 3]"),
        (torch.zeros(ROWS, HEADS * KEY), "expected shape [10, 2, 4], got float32[10, 8]"),
        (torch.zeros(SIZE, HEADS, KEY), "expected shape [10, 2, 4], got float32[8, 2, 4]"),
        (torch.zeros(ROWS, HEADS, KEY).half(), "expected dtype float32, got float16[10, 2, 4]"),
        (torch.zeros(ROWS, HEADS, KEY).to("meta"), "expected a tensor on cpu"),
    ],
)
def test_key_buffers(answer: object, said: str) -> None:
    message = refusal(lying("get_key_buffer", answer).get_key_buffer, 0)
    assert message.startswith("ToyPool.get_key_buffer: return value: ")
    assert said in message


def test_value_and_pair_buffers() -> None:
    key, value = torch.zeros(ROWS, HEADS, KEY), torch.zeros(ROWS, HEADS, VALUE)
    assert "expected shape [10, 2, 3]" in refusal(
        lying("get_value_buffer", key).get_value_buffer, 0
    )
    pair = lying("get_kv_buffer", (key, key))
    assert "return value[1]: expected shape [10, 2, 3]" in refusal(pair.get_kv_buffer, 0)
    pair = lying("get_kv_buffer", [key, value])
    assert "expected tuple[Tensor, Tensor], got a list of 2" in refusal(pair.get_kv_buffer, 0)
    pair = lying("get_kv_buffer", (key, None))
    assert "got (float32[10, 2, 4] on cpu, None)" in refusal(pair.get_kv_buffer, 0)


def test_a_layout_other_than_rows_is_held_to_its_own_shape() -> None:
    class Paged(ToyPool):
        pool_traits = PoolTraits(kind="mha", layout="paged_nhd")

    pool = Paged()
    pool.answers["get_key_buffer"] = torch.zeros(5, PAGE, HEADS, KEY)
    assert validate(pool).get_key_buffer(0).dim() == 4
    pool.answers["get_key_buffer"] = torch.zeros(ROWS, HEADS, KEY)
    assert "expected shape [*, *, 2, 4]" in refusal(pool.get_key_buffer, 0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (([1], [8]), "expected tuple[list[int], list[int], list[int]], got (a list of 1"),
        (([1], [8], [2.0]), "expected tuple[list[int], list[int], list[int]]"),
        (([1] * 50, [8] * 50, [4] * 49 + ["4"]), "expected tuple[list[int]"),
        (([1, 2], [8, 8], [4]), "(ptrs, lens, item_lens) of equal length, got 2, 2 and 1"),
        (([1, 2], [8, 9], [4, 4]), "lens[1] to be a multiple of item_lens[1] > 0, got 9 and 4"),
        (([1], [8], [0]), "item_lens[0] > 0, got 8 and 0"),
    ],
)
def test_regions(answer: object, said: str) -> None:
    pool = lying("get_contiguous_buf_infos", answer)
    assert said in refusal(pool.get_contiguous_buf_infos)


def test_a_stage_without_layers_exports_nothing() -> None:
    pool = lying("get_contiguous_buf_infos", ([], [], []))
    assert pool.get_contiguous_buf_infos() == ([], [], [])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (torch.zeros(3, dtype=torch.int64), "shape [2], as asked, got int64[3]"),
        (torch.zeros(2), "expected an int32 or int64 tensor, got float32[2]"),
        (torch.tensor([1, -7]), "locations of -1 or more, got -7"),
    ],
)
def test_translated_locations(answer: object, said: str) -> None:
    pool = lying("translate_loc_from_full_to_swa", answer)
    assert said in refusal(pool.translate_loc_from_full_to_swa, locations(2, 3))


def test_data_is_checked_when_the_pool_is_validated() -> None:
    pool: Any = ToyPool()
    pool.page_size = "2"
    assert refusal(validate, pool) == "ToyPool.page_size: value: expected int, got str '2'"
    assert type(pool) is ToyPool


def test_a_property_is_checked_on_every_read() -> None:
    class Shrinking(ToyPool):
        sizes: tuple[Any, ...] = (8, 8)

        @property
        def size(self) -> Any:
            return self.sizes[0]

        @size.setter
        def size(self, value: int) -> None: ...

    pool = validate(Shrinking())
    assert pool.size == 8
    pool.sizes = (None,)
    assert refusal(getattr, pool, "size") == "Shrinking.size: value: expected int, got None"


def test_a_property_that_raises_breaks_the_contract() -> None:
    class Raising(ToyPool):
        @property
        def end_layer(self) -> int:
            raise NotImplementedError

        @end_layer.setter
        def end_layer(self, value: int) -> None: ...

    message = refusal(validate, Raising())
    assert (
        message
        == "Raising.end_layer: value: expected one, got NotImplementedError when it was read"
    )
