"""Rows to host memory and back in few launches, whatever buffers a pool has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvproto.kernels import rows_from_host, rows_to_host
from kvproto.kernels.triton.launch import Launch, run

pytestmark = pytest.mark.usefixtures("served_on_cpu")
LOC = torch.tensor([5, 0, 3, -1, 7])


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    ran: list[Launch] = []

    def spy(launch: Launch) -> None:
        ran.append(launch)
        run(launch)

    monkeypatch.setattr("kvproto.kernels.triton.launch.run", spy)
    return ran


def buffers() -> list[Tensor]:
    """Keys and values of three layers, of two widths, and one whose rows are apart."""
    dice = torch.Generator().manual_seed(0)
    made = [torch.randn(9, 2, width, generator=dice) for width in 3 * (8, 4)]
    made.append(torch.randn(9, 2, 2, 8, generator=dice)[:, 0])
    for buffer in made:
        buffer[0].zero_()
    return made


def expected(buffer: Tensor) -> Tensor:
    return buffer[LOC.clamp(min=0)]


def test_rows_of_alike_buffers_are_one_launch(launches: list[Launch]) -> None:
    pool = buffers()
    held = rows_to_host(pool, LOC)
    assert len(launches) == 3
    assert all(map(torch.equal, held, map(expected, pool)))


def test_rows_return_to_where_they_were(launches: list[Launch]) -> None:
    pool, empty = buffers(), [buffer.zero_() for buffer in buffers()]
    rows_from_host(empty, LOC, [expected(buffer) for buffer in pool])
    assert len(launches) == 3
    for buffer, was in zip(empty, pool, strict=True):
        stored = torch.zeros_like(was)
        stored[[3, 5, 7]] = was[[3, 5, 7]]
        assert torch.equal(buffer, stored)


def test_what_is_staged_at_a_time_is_bounded(
    launches: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproto.kernels.host_copies._STAGED_BYTES", 2 * len(LOC) * 64)
    pool = buffers()
    held = rows_to_host(pool, LOC)
    assert [launch.grid[1] for launch in launches] == [2, 1, 3, 1]
    assert all(map(torch.equal, held, map(expected, pool)))


def test_none_is_nothing() -> None:
    assert rows_to_host((), LOC) == ()
    none = torch.empty(0, dtype=torch.int64)
    assert [each.shape[0] for each in rows_to_host(buffers(), none)] == 7 * [0]
    rows_from_host(buffers(), none, rows_to_host(buffers(), none))
