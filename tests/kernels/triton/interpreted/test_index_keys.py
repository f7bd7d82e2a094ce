"""How kernels of index keys are launched, and what they do with slots that no pool has."""

from __future__ import annotations

import pytest
import torch

from kvproto.kernels import gather_index_keys
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
    (launch,) = plan_move_index_keys([whole[:2]], PAST, torch.tensor([3, 128, 3]), 128)
    run(launch)
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


@pytest.mark.parametrize(
    ("lens", "columns", "filled"),
    [([3, 4], 1, [(0, 7)]), ([70, 60], 1, [(0, 64), (70, 130)]), ([0, 0], 2, []), ([5], 0, [])],
)
def test_keys_that_no_request_has_are_zeros(
    lens: list[int], columns: int, filled: list[tuple[int, int]]
) -> None:
    """Memory that nobody wrote would be read as keys of somebody else's."""
    rows, scales = (torch.full((202, each.shape[1]), 77).to(torch.uint8) for each in ones(1))
    table = torch.ones(len(lens), columns, dtype=torch.int64)
    plan = plan_gather_index_keys(
        memory(1) | 1, torch.tensor(lens), table, rows[:200], scales[:200]
    )
    run(plan)
    if columns:
        expected = torch.zeros(200, dtype=torch.bool)
        for first, end in filled:
            expected[first:end] = True
        assert torch.equal(rows[:200].all(1), expected)
        assert torch.equal(scales[:200].all(1), expected)
        assert torch.equal(rows[:200].any(1), expected)
    assert (rows[200:] == 77).all()


@pytest.mark.usefixtures("served_on_cpu")
def test_a_batch_without_pages_has_keys_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *n: self.new_full(n, 77))
    table = torch.ones(1, 0, dtype=torch.int64)
    for part in gather_index_keys(memory(1), torch.tensor([5]), table, 5, 64, 128):
        assert len(part) == 5
        assert not part.any()


def test_lengths_and_pages_of_any_strides_are_read() -> None:
    lens, table = torch.tensor([[2, 9], [3, 9]])[:, 0], torch.tensor([[1, 9], [2, 9]])[:, ::2]
    rows, scales = ones(5)
    run(plan_gather_index_keys(memory(4), lens, table, rows, scales))
    keys = memory(4)[:, :8192].view(4, 64, 128)
    assert torch.equal(rows, torch.cat((keys[1, :2], keys[2, :3])))


def test_keys_of_all_layers_are_moved_in_one_launch() -> None:
    layers = [torch.empty(1000, 8448, dtype=torch.uint8, device="meta") for _ in range(61)]
    for n in (1, 32, 256):
        loc = torch.empty(n, dtype=torch.int64, device="meta")
        (launch,) = plan_move_index_keys(layers, loc, loc, 128)
        assert launch.grid == (1, 61)


def test_layers_of_less_alignment_are_moved_with_the_others() -> None:
    buffer = torch.randint(0, 256, (3 * 8448 + 4,), generator=torch.Generator().manual_seed(1))
    buffer = buffer.to(torch.uint8)
    layers = [buffer[:-4].view(3, 8448).clone(), buffer[4:].view(3, 8448)]
    expected = [pages.clone() for pages in layers]
    for pages in expected:
        pages[1, 128:256], pages[1, 8196:8200] = pages[2, :128].clone(), pages[2, 8192:8196].clone()
    (launch,) = plan_move_index_keys(layers, torch.tensor([65]), torch.tensor([128]), 128)
    run(launch)
    assert all(map(torch.equal, layers, expected))
