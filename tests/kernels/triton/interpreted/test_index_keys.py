"""How kernels of index keys are launched, and what they do with slots that no pool has."""

from __future__ import annotations

import torch

from kvproto.kernels.triton.gather_index_keys import plan_gather_index_keys
from kvproto.kernels.triton.launch import run
from kvproto.kernels.triton.load_index_keys import plan_load_index_keys
from kvproto.kernels.triton.move_index_keys import plan_move_index_keys
from kvproto.kernels.triton.store_index_keys import plan_store_index_keys

PAST = torch.tensor([128, 3, 1 << 40])


def memory(pages: int) -> torch.Tensor:
    """Four pages of 64 keys, of which a pool has the first."""
    return torch.randint(1, 256, (4, 8448), generator=torch.Generator().manual_seed(pages)).to(
        torch.uint8
    )


def ones(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(n, 128, dtype=torch.uint8), torch.ones(n, 4, dtype=torch.uint8)


def test_a_slot_past_the_end_is_not_written() -> None:
    """Operations refuse it on the CPU; on a device nobody waits to look."""
    whole = torch.zeros(4, 8448, dtype=torch.uint8)
    run(plan_store_index_keys(whole[:2], PAST, *ones(3)))
    assert whole.count_nonzero() == 132
    run(plan_move_index_keys([whole[:2]], PAST, torch.tensor([3, 128, 3]), 128))
    assert whole.count_nonzero() == 132


def test_a_slot_past_the_end_reads_as_zeros() -> None:
    whole, (keys, scales) = memory(4), ones(3)
    run(plan_load_index_keys(whole[:2], PAST, keys, scales))
    assert keys.any(1).tolist() == scales.any(1).tolist() == [False, True, False]
    lens, table = torch.tensor([1, 2]), torch.tensor([[2], [1]])
    run(plan_gather_index_keys(whole[:2], lens, table, keys, scales))
    assert keys.any(1).tolist() == scales.any(1).tolist() == [False, True, True]


def test_lengths_that_are_not_their_sum_write_nothing_past_the_end() -> None:
    rows, scales = ones(4)
    run(plan_gather_index_keys(memory(4), torch.tensor([9]), torch.tensor([[1]]), rows[:3], scales))
    assert not (rows[:3] == 1).all(1).any()
    assert (rows[3] == 1).all()


def test_keys_of_all_layers_are_moved_in_one_launch() -> None:
    layers = [torch.empty(1000, 8448, dtype=torch.uint8, device="meta") for _ in range(61)]
    for n in (1, 32, 256):
        loc = torch.empty(n, dtype=torch.int64, device="meta")
        assert plan_move_index_keys(layers, loc, loc, 128).grid == (1, 61)


def test_layers_of_less_alignment_are_moved_with_the_others() -> None:
    buffer = torch.randint(0, 256, (3 * 8448 + 4,), generator=torch.Generator().manual_seed(1))
    buffer = buffer.to(torch.uint8)
    layers = [buffer[:-4].view(3, 8448).clone(), buffer[4:].view(3, 8448)]
    expected = [pages.clone() for pages in layers]
    for pages in expected:
        pages[1, 128:256], pages[1, 8196:8200] = pages[2, :128].clone(), pages[2, 8192:8196].clone()
    run(plan_move_index_keys(layers, torch.tensor([65]), torch.tensor([128]), 128))
    assert all(map(torch.equal, layers, expected))
