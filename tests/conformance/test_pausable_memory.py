"""Paused memory is gone, resumed memory is at the same address and holds something else."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from kvproto.conformance import LawBroken
from kvproto.conformance.isolated import run_in_child
from kvproto.conformance.pausable_memory import pausable_memory
from kvproto.protocols import Resumable
from kvproto.reference import MHALeaf, RecurrentStatePool
from kvproto.reference.hybrid_parts import hybrid_pool


def test_a_paused_buffer_cannot_be_touched_and_comes_back_at_its_address() -> None:
    with pausable_memory() as memory:
        saver = import_module("torch_memory_saver").torch_memory_saver
        with saver.region(tag="kv_cache"):
            rows = torch.zeros(64, 3, dtype=torch.bfloat16)
            filled = torch.full((5,), 2.0)
        with saver.region(tag="weights"):
            other = torch.ones(4)
        outside = torch.ones(4)
        address = rows.data_ptr()
        saver.pause("kv_cache")
        assert float(other.sum() + outside.sum()) == 8
        assert rows.data_ptr() == address
        with pytest.raises(LawBroken, match="SIGSEGV"):
            run_in_child(lambda: float(rows.sum()))
        with pytest.raises(LawBroken, match="SIGSEGV"):
            run_in_child(lambda: float(filled[0]))
        memory.resume("kv_cache")
        assert rows.isnan().all()
        assert rows.data_ptr() == address
        rows[1] = 1.0
        assert rows[1].sum() == 3


def test_a_hybrid_restores_both_of_its_parts() -> None:
    leaf = MHALeaf(4, 1, torch.bfloat16, head_num=1, head_dim=4, layer_num=1, device="cpu")
    state = RecurrentStatePool(
        size=2,
        mamba_layer_ids=[0],
        conv_state_shape=[(2, 3)],
        temporal_state_shape=(2, 2),
        conv_dtype=torch.bfloat16,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    pool = hybrid_pool(full_kv_pool=leaf, mamba_pool=state, full_attention_layer_ids=[1])
    assert isinstance(pool, Resumable)
    tensors = [*leaf.k_buffer, *leaf.v_buffer, *(t[0] for t in state.mamba_cache.persistent())]
    for tensor in tensors:
        tensor.fill_(float("nan"))
    pool.restore_reserved()
    for tensor in tensors:
        assert not tensor[0].any()
        assert tensor[1:].isnan().all()
