"""Rows as `[heads, n, dim]`: stored where they are, with the same bytes as dense ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kvproto.kernels import (
    RowTiles,
    store_block_scaled_rows,
    store_fp8_row_sets,
    store_fp8_tiled_row_sets,
    store_row_sets,
    store_tiled_rows,
)

HEADS, WIDTH, SLOTS = 3, 64, 32
TILES = RowTiles(8 * HEADS * WIDTH, token=((8, WIDTH),), row=((HEADS, 8 * WIDTH), (WIDTH, 1)))
Store = Callable[[Tensor, Tensor], Tensor]

pytestmark = pytest.mark.usefixtures("served_on_cpu")


def plain(loc: Tensor, rows: Tensor) -> Tensor:
    target = torch.zeros(SLOTS, HEADS, WIDTH, dtype=rows.dtype)
    store_row_sets(loc, [(target, rows)])
    return target


def fp8(loc: Tensor, rows: Tensor) -> Tensor:
    target = torch.zeros(SLOTS, HEADS, WIDTH, dtype=torch.uint8)
    store_fp8_row_sets(loc, [(target, rows, 0.5)], torch.float8_e4m3fn)
    return target


def fp8_tiled(loc: Tensor, rows: Tensor) -> Tensor:
    target = torch.zeros(SLOTS * HEADS * WIDTH, dtype=torch.uint8)
    store_fp8_tiled_row_sets(loc, [(target, TILES, rows, None)], torch.float8_e5m2)
    return target


def tiled(loc: Tensor, rows: Tensor) -> Tensor:
    target = torch.zeros(SLOTS * HEADS * WIDTH, dtype=rows.dtype)
    store_tiled_rows(target, loc, rows, TILES)
    return target


def mxfp8(loc: Tensor, rows: Tensor) -> Tensor:
    elements = torch.zeros(SLOTS, HEADS, WIDTH, dtype=torch.uint8)
    scales = torch.zeros(SLOTS, HEADS, WIDTH // 32, dtype=torch.uint8)
    store_block_scaled_rows(loc, [(elements, scales, rows, None)], "mxfp8")
    return torch.cat((elements, scales), dim=-1)


@pytest.mark.parametrize("n", [1, 5, 17])
@pytest.mark.parametrize("store", [plain, fp8, fp8_tiled, tiled, mxfp8])
def test_rows_by_head_are_stored_as_dense_ones(
    store: Store, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = torch.randn(HEADS, n, WIDTH, generator=torch.Generator().manual_seed(n)).bfloat16()
    by_head, loc = rows.transpose(0, 1), torch.arange(SLOTS - 1, SLOTS - 1 - n, -1)
    expected = store(loc, by_head.clone(memory_format=torch.contiguous_format))
    monkeypatch.setattr(Tensor, "contiguous", refused)
    assert torch.equal(store(loc, by_head), expected)
    assert expected.count_nonzero() > n * WIDTH


def refused(tensor: Tensor) -> Tensor:
    """Of rows by head nothing is made dense; lists of locations are dense already."""
    assert tensor.dim() == 1, f"{tuple(tensor.shape)} was made dense"
    return tensor
