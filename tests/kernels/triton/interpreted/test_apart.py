"""Rows in the memory of their target: stored as if they had been elsewhere.

Programs run one after the other here, so that one which writes what a later one reads is seen.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kvproto.kernels import (
    RowTiles,
    store_block_scaled_rows,
    store_fp8_row_sets,
    store_index_keys,
    store_packed_latent_rows,
    store_quantised_index_keys,
    store_row_sets,
    store_tiled_rows,
)

pytestmark = pytest.mark.usefixtures("served_on_cpu")

WIDTH, SLOTS, N = 512, 64, 16
LOC = torch.arange(SLOTS - 1, SLOTS - 1 - N, -1)
TILES = RowTiles(page_stride=4 * WIDTH, token=((4, WIDTH),), row=((WIDTH, 1),))


def memory() -> Tensor:
    """As bytes what rows of bfloat16 are."""
    values = torch.randn(SLOTS * WIDTH, generator=torch.Generator().manual_seed(0))
    return values.bfloat16().view(torch.uint8)


def targets(held: Tensor, width: int = WIDTH) -> Tensor:
    """`[SLOTS, 1, width]` bytes at the end of the memory."""
    return held[-SLOTS * width :].view(SLOTS, 1, width)


def given(held: Tensor, width: int = WIDTH) -> Tensor:
    """`[N, 1, width]` bfloat16 at its end: the last targets, in the other order."""
    return held[-2 * N * width :].view(torch.bfloat16).view(N, 1, width)


def plain(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    rows = held.view(torch.bfloat16).view(SLOTS, 1, WIDTH)
    store_row_sets(LOC, [(rows, copied(rows[-N:]))])


def fp8(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    sets = [(targets(held), copied(given(held)), None)]
    store_fp8_row_sets(LOC, sets, torch.float8_e4m3fn)


def fp8_of_another_set(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    free, other = torch.zeros(SLOTS, 1, WIDTH, dtype=torch.uint8), torch.ones(N, 1, WIDTH)
    sets = [(targets(held), other, None), (free, copied(given(held)), None)]
    store_fp8_row_sets(LOC, sets, torch.float8_e4m3fn)
    held[: SLOTS * WIDTH].copy_(free.view(-1))


def block_scaled(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    scales = torch.zeros(SLOTS, 1, WIDTH // 32, dtype=torch.uint8)
    store_block_scaled_rows(LOC, [(targets(held), scales, copied(given(held)), None)], "mxfp8")


def scales_of_blocks(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    elements = torch.zeros(SLOTS, 1, WIDTH, dtype=torch.uint8)
    scales = targets(held, WIDTH // 32)
    rows = copied(given(held))
    store_block_scaled_rows(LOC, [(elements, scales, rows, None)], "mxfp8")
    held[: SLOTS * WIDTH].copy_(elements.view(-1))


def tiled(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    rows = held.view(torch.bfloat16)
    store_tiled_rows(rows, LOC, copied(rows[-N * WIDTH :].view(N, WIDTH)), TILES)


def packed(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    rows = copied(given(held, 576))
    store_packed_latent_rows(targets(held, 656), LOC, rows[..., :512], rows[..., 512:])


def index_keys(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    pages = held[-SLOTS * 516 :].view(SLOTS, 516)
    keys, scales = pages[-N:, :512], torch.ones(N, 4, dtype=torch.uint8)
    store_index_keys(pages, LOC, copied(keys), scales)


def quantised_index_keys(held: Tensor, copied: Callable[[Tensor], Tensor]) -> None:
    pages = held[-SLOTS * 516 :].view(SLOTS, 516)
    store_quantised_index_keys(pages, LOC, copied(given(held).view(N, -1)), round_scale=False)


STORES = (
    plain,
    fp8,
    fp8_of_another_set,
    block_scaled,
    scales_of_blocks,
    tiled,
    packed,
    index_keys,
    quantised_index_keys,
)


@pytest.mark.parametrize("store", STORES)
def test_rows_in_the_memory_of_a_target_are_read_first(
    store: Callable[[Tensor, Callable[[Tensor], Tensor]], None],
) -> None:
    held, expected = memory(), memory()
    store(held, lambda rows: rows)
    store(expected, lambda rows: rows.clone())
    assert torch.equal(held, expected)
    assert not torch.equal(held, memory())


@pytest.mark.parametrize("store", STORES)
def test_a_kernel_alone_would_read_too_late(
    store: Callable[[Tensor, Callable[[Tensor], Tensor]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the test above shows nothing."""
    name = "kvproto.kernels.apart._storage"
    monkeypatch.setattr(name, id)
    held, expected = memory(), memory()
    store(held, lambda rows: rows)
    store(expected, lambda rows: rows.clone())
    assert not torch.equal(held, expected)
