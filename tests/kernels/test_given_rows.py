"""What rows may be: of the target's own shape and dtype, and never read where they are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from kvproto.kernels import move_rows, store_row_sets, store_rows

SLOTS = 9
Store = Callable[[Tensor, Tensor, Tensor], None]


def in_a_set(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """`store_row_sets`, after a set that fits."""
    store_row_sets(loc, ((torch.zeros(SLOTS, 2), torch.ones(loc.shape[0], 2)), (target, rows)))


stores = pytest.mark.parametrize("store", [store_rows, in_a_set])
numbers = pytest.mark.parametrize("n", [1, 2, 9])


@stores
@numbers
def test_fake_rows_outside_their_mode_are_not_read(store: Store, n: int) -> None:
    """They are on the CPU by their own word, and their address is that of nothing."""
    target = torch.zeros(SLOTS + 1 if store is store_rows else SLOTS, 2, 3)
    with FakeTensorMode():
        rows = torch.ones(n, 2, 3)
    with pytest.raises(Exception, match="Fake"):
        store(target, torch.arange(n), rows)
    assert not target.any()


@stores
def test_parameters_are_stored(store: Store) -> None:
    target, rows = torch.zeros(SLOTS, 2, 3), torch.nn.Parameter(torch.ones(2, 2, 3))
    store(target, torch.tensor([1, 4]), rows.requires_grad_(False))
    assert torch.equal(target[[1, 4]], torch.ones(2, 2, 3))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@stores
@numbers
def test_rows_are_stored_inside_a_transform(store: Store, n: int) -> None:
    """Of what functorch wraps there is no address."""
    batch, loc = torch.rand(4, n, 2, 4), torch.arange(SLOTS - n, SLOTS)

    def stored(rows: Tensor) -> Tensor:
        target = torch.zeros_like(rows).new_zeros(SLOTS, 2, 4)
        store(target, loc, rows)
        return target

    expected = torch.stack([stored(rows) for rows in batch])
    assert torch.equal(torch.func.vmap(stored)(batch), expected)
    assert torch.equal(torch.func.functionalize(stored)(batch[0]), expected[0])


@stores
@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(2, 3, 2),
        torch.ones(2, 6),
        torch.ones(4, 3),
        torch.ones(1, 2, 6),
        torch.ones(1, 2, 3),
        torch.ones(12),
        torch.ones(2, 2, 3, dtype=torch.int32),
    ],
)
def test_the_same_bytes_of_another_shape_are_refused(store: Store, rows: Tensor) -> None:
    target = torch.zeros(SLOTS, 2, 3)
    with pytest.raises(ValueError, match=r"rows are .* must be torch\.float32 \(2, 2, 3\)"):
        store(target, torch.tensor([1, 2]), rows)
    assert not target.any()


@pytest.mark.parametrize("sources", [[3], [3, 4, 5], []])
def test_as_many_sources_as_targets_are_moved(sources: list[int]) -> None:
    buffer = torch.arange(SLOTS * 2.0).view(SLOTS, 2)
    before = buffer.clone()
    with pytest.raises(ValueError, match=rf"targets .* \(2,\), sources \({len(sources)},\)"):
        move_rows(buffer, torch.tensor([1, 2]), torch.tensor(sources, dtype=torch.int64))
    assert torch.equal(buffer, before)
