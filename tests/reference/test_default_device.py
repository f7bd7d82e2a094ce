"""What is counted or looked up on the host stays there, whatever torch's default device is."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import kvproto.kernels.fp8_table as module
from kvproto.kernels import to_stored
from kvproto.reference import RecurrentStatePool, ReqToToken, StateReqToToken, StateSlots
from tests.reference.allocators import pair


@pytest.fixture(autouse=True)
def another_device() -> Iterator[None]:
    """One without memory stands in for an accelerator."""
    module._table.cache_clear()
    with torch.device("meta"):
        yield
    module._table.cache_clear()


@pytest.mark.parametrize("n", [3, 1 << 15])
def test_fp8_rows_are_looked_up(n: int) -> None:
    rows = torch.full((n, 2), 1.0, dtype=torch.bfloat16, device="cpu")
    stored = to_stored(rows, torch.float8_e4m3fn)
    assert stored.is_cpu
    assert stored.view(torch.float8_e4m3fn).float().sum() == 2 * n


def test_a_tail_is_allocated() -> None:
    allocator = pair(16, 16)
    before, after, last = (torch.tensor([each], device="cpu") for each in (0, 8, -1))
    ids = allocator.alloc_extend_swa_tail(before, before, after, after, last, 8, 3)
    assert ids is not None
    assert ids.is_cpu


def test_rows_come_with_state() -> None:
    pool = RecurrentStatePool(
        size=4,
        mamba_layer_ids=(1,),
        conv_state_shape=((2, 3),),
        temporal_state_shape=(2, 2),
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    table = StateReqToToken(
        size=2,
        max_context_len=8,
        device="cpu",
        enable_memory_saver=False,
        mamba_pool=pool,
        mamba_allocator=StateSlots(4, "cpu"),
        enable_mamba_extra_buffer=False,
    )
    kv: Any = SimpleNamespace(
        req_pool_idx=None, mamba_pool_idx=None, mamba_ping_pong_track_buffer=None
    )
    rows = table.alloc([SimpleNamespace(kv=kv)])
    assert rows is not None
    assert int(table.req_index_to_mamba_index_mapping[rows[0]]) > 0


def test_generations_are_on_the_host() -> None:
    table = ReqToToken(2, 8, "cpu", enable_memory_saver=False)
    table.alloc([SimpleNamespace(kv=SimpleNamespace(req_pool_idx=None))])
    assert int(table.req_generation.sum()) == 1
