"""Rows 16 bytes at a time: where each element is, by plain arithmetic on a flat buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.adapters.rocm.platform import gfx942_on_cpu
from kvproto.configurator import MemoryBudget, ParallelLayout, ServingOptions, build, plan
from kvproto.conformance.deployment import Watched
from kvproto.protocols import Transferable
from kvproto.reference import CORE
from tests.adapters.rocm.leaves import FNUZ, built, declined, heads
from tests.configurator.test_plan import shape_of

PAGE, HEADS, K, V, SLOTS = 32, 3, 64, 32, 128
CASES = [torch.bfloat16, torch.float16, FNUZ]

ROCM = gfx942_on_cpu()


def asked(dtype: torch.dtype, **changes: Any) -> Any:
    sizes: dict[str, Any] = {"head_num": HEADS, "head_dim": K, "v_head_dim": V}
    return heads(layout="vectorized_5d", dtype=dtype, **(sizes | changes))


def key_at(slot: int, head: int, i: int, x: int) -> int:
    """The element's place in `[pages, heads, K / x, page, x]`."""
    page, token = divmod(slot, PAGE)
    return (((page * HEADS + head) * (K // x) + i // x) * PAGE + token) * x + i % x


def value_at(slot: int, head: int, i: int, x: int) -> int:
    """The element's place in `[pages, heads, page / x, V, x]`."""
    page, token = divmod(slot, PAGE)
    return (((page * HEADS + head) * (PAGE // x) + token // x) * V + i) * x + token % x


def spread(rows: Tensor, slots: list[int], at: Callable[..., int], x: int) -> Tensor:
    """A flat buffer of zeros with these rows, by the formula."""
    _, count, width = rows.shape
    flat = torch.zeros(SLOTS * count * width, dtype=rows.dtype)
    for row, slot in enumerate(slots):
        for head in range(count):
            for i in range(width):
                flat[at(slot, head, i, x)] = rows[row, head, i]
    return flat


@pytest.mark.parametrize("dtype", CASES, ids=str)
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_rows_are_where_the_formula_says(dtype: torch.dtype, index: torch.dtype) -> None:
    """Slots of 0 and below are skipped, every other byte of every page stays zero."""
    leaf = built(ROCM, asked(dtype))
    made = torch.Generator().manual_seed(3)
    k, v = (torch.randn(6, HEADS, width, generator=made) for width in (K, V))
    slots = [5, -1, 127, 0, -130, 64]
    layer = leaf.start_layer + 1
    leaf.set_kv_buffer(None, torch.tensor(slots, dtype=index), k, v, layer_id_override=layer)
    kept = [0, 2, 5]
    x = 16 // dtype.itemsize
    shapes = (4, HEADS, K // x, PAGE, x), (4, HEADS, PAGE // x, V, x)
    sides = (
        (leaf.get_key_buffer, k, key_at, shapes[0]),
        (leaf.get_value_buffer, v, value_at, shapes[1]),
    )
    for door, rows, at, shape in sides:
        expected = spread(rows[kept].to(dtype).float(), [slots[i] for i in kept], at, x)
        assert door(layer).shape == shape
        assert torch.equal(door(layer).float().flatten(), expected)
        assert not door(layer - 1).float().any()


def test_a_slot_past_the_end_is_refused_and_nothing_written() -> None:
    leaf = built(ROCM, asked(FNUZ))
    k, v = torch.ones(2, HEADS, K), torch.ones(2, HEADS, V)
    with pytest.raises(IndexError):
        leaf.set_kv_buffer(None, torch.tensor([1, SLOTS]), k, v, layer_id_override=4)
    assert not leaf.get_key_buffer(4).float().any()


@pytest.mark.parametrize(
    ("dtype", "changes", "said"),
    [
        (torch.bfloat16, {"page_size": 12, "size": 96}, "page_size=12 must be a multiple of 8"),
        (FNUZ, {"page_size": 8}, "page_size=8 must be a multiple of 16"),
        (FNUZ, {"head_dim": 72, "v_head_dim": 40}, "head_dim=72, v_head_dim=40 must be a multiple"),
    ],
)
def test_what_does_not_divide_is_declined_with_its_numbers(
    dtype: torch.dtype, changes: dict[str, Any], said: str
) -> None:
    assert said in declined(ROCM, asked(dtype, **changes))


def test_a_model_is_served_in_pages_of_64_where_nobody_says_otherwise() -> None:
    options = ServingOptions(
        layout="vectorized_5d", kv_cache_dtype="fp8_e4m3", max_total_tokens=192, context_len=256
    )
    budget, facts = MemoryBudget.of_caches(1 << 50), ROCM.capabilities
    made = plan(shape_of("qwen3_moe"), options, ParallelLayout(tp_size=4), budget, platform=facts)
    pools = build(made, Watched(ROCM, "cpu"), CORE)
    assert isinstance(pools.pool, Transferable)
    leaf: Any = pools.pool
    assert (leaf.page_size, leaf.dtype, leaf.kv_cache_layout) == (64, FNUZ, "vectorized_5d")
    assert leaf.get_key_buffer(0).shape[-2:] == (64, 16)
