"""Recurrent state by slot: what is zero, what is copied, what a transfer is told."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.protocols import (
    DeclaresRegions,
    KVPool,
    SizeReporting,
    StatePool,
    StatePoolRequest,
    StateSliceable,
    buf_infos,
    explain,
)
from kvproto.reference.state import RecurrentStatePool
from kvproto.reference.state_tensors import SpeculativeState
from tests.reference.sync_free import SyncFree

GEOMETRY: dict[str, Any] = {
    "size": 3,
    "mamba_layer_ids": [0, 2],
    "conv_state_shape": [(2, 4)],
    "temporal_state_shape": (2, 2, 2),
    "conv_dtype": torch.float32,
    "ssm_dtype": torch.float32,
    "device": "cpu",
}


def make(**changes: Any) -> RecurrentStatePool:
    return RecurrentStatePool(**(GEOMETRY | changes))


def tensors(pool: RecurrentStatePool) -> list[Tensor]:
    return pool.mamba_cache.persistent()


def fill(pool: RecurrentStatePool, slot: int, value: float) -> None:
    for tensor in tensors(pool):
        tensor[:, slot] = value


def values(pool: RecurrentStatePool, slot: int) -> set[float]:
    return {value for tensor in tensors(pool) for value in tensor[:, slot].flatten().tolist()}


@pytest.mark.parametrize("capability", [StatePool, StateSliceable, SizeReporting, DeclaresRegions])
def test_has_its_capabilities_by_declaration(capability: type) -> None:
    assert isinstance(make(), capability)
    assert issubclass(RecurrentStatePool, capability)
    assert explain(make(), capability) == []
    assert not isinstance(make(), KVPool)


def test_a_reserved_slot_comes_on_top() -> None:
    pool = make()
    assert [tuple(t.shape) for t in tensors(pool)] == [(2, 4, 2, 4), (2, 4, 2, 2, 2)]
    assert (pool.size, pool.mamba_layer_ids, pool.num_mamba_layers) == (3, [0, 2], 2)
    assert all(values(pool, slot) == {0.0} for slot in range(4))


def test_a_cleared_slot_is_zero_in_every_tensor_of_every_layer() -> None:
    """vllm#56524: whoever reuses a slot clears it, and every tensor has to be reached."""
    pool = make(conv_state_shape=[(2, 4), (3, 1)])
    for slot in (1, 2, 3):
        fill(pool, slot, float("nan"))
    pool.clear_slots(torch.tensor([2, 0, -1], dtype=torch.int32))
    assert values(pool, 2) == {0.0}
    assert values(pool, 0) == {0.0}
    for slot in (1, 3):
        assert all(tensor[:, slot].isnan().all() for tensor in tensors(pool))
    pool.clear_slots(torch.empty(0, dtype=torch.int64))


def test_a_fork_covers_every_tensor_and_keeps_its_source() -> None:
    pool = make(conv_state_shape=[(2, 4), (3, 1)])
    fill(pool, 1, 5)
    pool.copy_from(torch.tensor([1]), torch.tensor([3]))
    assert (values(pool, 1), values(pool, 2), values(pool, 3)) == ({5.0}, {0.0}, {5.0})
    pool.copy_from(torch.tensor([1, 2]), torch.tensor([1, 2]))
    assert (values(pool, 1), values(pool, 2)) == ({5.0}, {0.0})


def test_copies_read_all_sources_first_and_never_reach_slot_0() -> None:
    pool = make()
    for slot in (1, 2, 3):
        fill(pool, slot, slot)
    pool.copy_from(torch.tensor([1, 2, 3, 1]), torch.tensor([2, 3, 0, -1], dtype=torch.int32))
    assert [values(pool, slot) for slot in range(4)] == [{0.0}, {1.0}, {1.0}, {2.0}]


def test_slots_that_are_not_there_are_refused() -> None:
    pool, beyond, one = make(), torch.tensor([4]), torch.tensor([1])
    fill(pool, 1, 5)
    for call in (
        lambda: pool.clear_slots(torch.tensor([1, 4])),
        lambda: pool.copy_from(one, beyond),
        lambda: pool.copy_from(beyond, one),
        lambda: pool.get_cpu_copy(beyond),
        lambda: pool.load_cpu_copy(pool.get_cpu_copy(one), beyond),
    ):
        with pytest.raises(IndexError, match="location 4 is past the last row 3"):
            call()
    assert values(pool, 1) == {5.0}


def test_a_copy_on_the_host_comes_back_elsewhere() -> None:
    pool = make()
    fill(pool, 1, 5)
    fill(pool, 2, float("nan"))
    saved = pool.get_cpu_copy(torch.tensor([1, 2]))
    for slot in (1, 2):
        pool.clear_slots(torch.tensor([slot]))
    pool.load_cpu_copy(saved, torch.tensor([3, 0], dtype=torch.int32))
    assert [values(pool, slot) for slot in range(4)] == [{0.0}, {0.0}, {0.0}, {5.0}]
    with pytest.raises(ValueError, match="the copy holds 2 slots of 2 tensors, asked to load 1"):
        pool.load_cpu_copy(saved, torch.tensor([3]))


def test_clearing_and_copying_never_wait_for_the_device() -> None:
    pool, slots = make(), torch.tensor([1, 0, -1])
    with SyncFree():  # type: ignore[no-untyped-call]
        pool.clear_slots(slots)
        pool.copy_from(slots, slots.flip(0))


def test_descriptors_are_by_tensor_then_layer_and_count_slots() -> None:
    """A window of 2 x 4 and a state of 2 x 2 x 2, in float32: 32 bytes a slot each."""
    pool = make()
    pointers, lengths, items = pool.get_contiguous_buf_infos()
    conv, temporal = tensors(pool)
    assert items == [32] * 4
    assert lengths == [128] * 4
    assert pointers == [t.data_ptr() for t in (conv[0], conv[1], temporal[0], temporal[1])]
    assert pool.get_state_layer_ids() == [0, 2, 0, 2]
    assert (pointers, lengths, items) == buf_infos(pool.buffer_regions())
    assert [region.layer_ids for region in pool.buffer_regions()] == [(0, 2), (0, 2)]
    field = pool.buffer_regions()[0].fields[0]
    assert (field.name, field.element, field.shape) == ("state", "float32", (1, 8))


@pytest.mark.parametrize(
    ("axis", "dims", "outer"),
    [
        (0, [2, 2, 3, 3], [1, 1, 1, 1]),
        (1, [4, 4, 3, 3], [2, 2, 1, 1]),
        (None, [0, 0, 3, 3], [1] * 4),
    ],
)
def test_slices(axis: int | None, dims: list[int], outer: list[int]) -> None:
    pool = make(temporal_state_shape=(3, 2), conv_slice_axis=axis)
    assert pool.get_state_dim_per_tensor() == dims
    assert pool.get_state_slice_outer_counts() == outer
    assert pool.get_state_conv_shard_groups() == [None] * 4


def test_blocks_that_are_split_one_by_one() -> None:
    pool = make(conv_shard_groups=(2, 2, 4))
    assert pool.get_state_conv_shard_groups() == [[2, 2, 4], [2, 2, 4], None, None]


def test_layers_that_are_convolutions_only() -> None:
    pool = make(temporal_state_shape=(0,))
    assert pool.get_contiguous_buf_infos()[2] == [32, 32]
    assert pool.get_state_layer_ids() == [0, 2]
    assert pool.get_state_dim_per_tensor() == [2, 2]
    fill(pool, 1, 5)
    pool.copy_from(torch.tensor([1]), torch.tensor([2]))
    pool.load_cpu_copy(pool.get_cpu_copy(torch.tensor([2])), torch.tensor([3]))
    assert values(pool, 3) == {5.0}


def test_a_stage_without_recurrent_layers() -> None:
    pool = make(mamba_layer_ids=[])
    assert pool.get_contiguous_buf_infos() == ([], [], [])
    assert pool.get_state_layer_ids() == []
    assert pool.buffer_regions() == ()
    pool.clear_slots(torch.tensor([1]))
    pool.copy_from(torch.tensor([1]), torch.tensor([2]))


def test_a_layer_is_asked_for_by_position_and_nothing_wraps() -> None:
    pool = make()
    one = pool.mamba2_layer_cache(1)
    assert one.conv[0].data_ptr() == pool.mamba_cache.conv[0][1].data_ptr()
    assert one.temporal.shape == (4, 2, 2, 2)
    for position in (2, -1):
        with pytest.raises(ValueError, match="is a position among the 2 recurrent layers"):
            pool.mamba2_layer_cache(position)


def test_speculative_scratch_is_by_request_row_and_stays_out() -> None:
    pool = make(speculative_num_draft_tokens=5, spec_state_size=2)
    cache = pool.mamba_cache
    assert isinstance(cache, SpeculativeState)
    assert cache.intermediate_ssm.shape == (2, 3, 5, 2, 2, 2)
    assert [t.shape for t in cache.intermediate_conv_window] == [(2, 3, 5, 2, 4)]
    assert pool.get_contiguous_buf_infos()[1:] == make().get_contiguous_buf_infos()[1:]
    cache.intermediate_ssm.fill_(7)
    pool.clear_slots(torch.tensor([1, 2]))
    assert bool((cache.intermediate_ssm == 7).all())
    one = pool.mamba2_layer_cache(0)
    assert isinstance(one, SpeculativeState)
    assert one.intermediate_ssm.shape == (3, 5, 2, 2, 2)
    assert make(speculative_num_draft_tokens=5).mamba_cache.all_tensors()[2].shape[1] == 4


def test_size_counts_everything() -> None:
    assert make().get_kv_size_bytes() == 2 * 4 * (8 + 8) * 4
    scratch = make(speculative_num_draft_tokens=5, spec_state_size=2).get_kv_size_bytes()
    assert scratch == 512 + 2 * 3 * 5 * (8 + 8) * 4
    assert make().mem_usage == 512 / (1 << 30)


def test_every_tensor_is_allocated_inside_the_saver_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """sglang#19029."""
    entered: list[str] = []
    inside: list[int] = []

    @contextmanager
    def region(tag: str) -> Generator[None]:
        entered.append(tag)
        yield
        entered.append("left")

    real = torch.zeros

    def zeros(*args: Any, **kwargs: Any) -> Any:
        inside.append(len(entered))
        return real(*args, **kwargs)

    saver = SimpleNamespace(torch_memory_saver=SimpleNamespace(region=region))
    monkeypatch.setitem(sys.modules, "torch_memory_saver", saver)
    monkeypatch.setattr(torch, "zeros", zeros)
    make(enable_memory_saver=True, speculative_num_draft_tokens=2)
    assert entered == ["kv_cache", "left"]
    assert inside == [1] * 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 0}, "size=0: must be at least 1"),
        ({"speculative_num_draft_tokens": 0}, "speculative_num_draft_tokens=0: must be at least 1"),
        ({"mamba_layer_ids": [1, 1]}, r"mamba_layer_ids=\[1, 1\]"),
        ({"mamba_layer_ids": [-1]}, "none negative"),
        ({"conv_state_shape": [(0, 4)]}, r"conv shape \(0, 4\): every length must be at least 1"),
        ({"temporal_state_shape": ()}, "lengths must not be negative"),
        ({"conv_dtype": torch.int32}, "state of torch.int32: must be one of"),
        ({"ssm_dtype": torch.float8_e5m2}, "state of torch.float8_e5m2"),
        ({"conv_slice_axis": 2}, "conv_slice_axis=2: no axis of conv shape"),
    ],
)
def test_impossible_geometry_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(**changes)


def request(**changes: Any) -> StatePoolRequest:
    shapes: dict[str, Any] = {"mamba_layer_ids": (0, 2), "conv_state_shape": ((2, 4),)}
    return StatePoolRequest(**(GEOMETRY | shapes | changes))


def test_a_request_has_the_constructors_words() -> None:
    pool = RecurrentStatePool(**request(conv_shard_groups=(1, 1)).keywords())
    assert pool.get_state_conv_shard_groups() == [[1, 1], [1, 1], None, None]
    assert request() == request()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 0}, "StatePoolRequest.size=0: must be an integer of at least 1"),
        ({"spec_state_size": 0}, "spec_state_size=0: must be an integer of at least 1"),
        ({"mamba_layer_ids": (3, 3)}, "a layer is named twice"),
        ({"conv_state_shape": ((2, 0),)}, "every length must be at least 1"),
        ({"temporal_state_shape": (-1,)}, "lengths must not be negative"),
        ({"conv_slice_axis": 2}, "must be an axis of every convolution's shape"),
    ],
)
def test_requests_that_cannot_be_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request(**changes)
