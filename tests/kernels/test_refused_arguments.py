"""What an operation does not serve it refuses before it reads or writes, kernel or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kvproto.kernels import (
    RowTiles,
    convert_pages,
    gather_index_keys,
    gather_tiled_rows,
    load_index_keys,
    move_index_key_sets,
    move_index_keys,
    store_index_keys,
    store_quantised_index_keys,
    store_tiled_rows,
)

pytestmark = pytest.mark.usefixtures("host_or_device")

TILES = RowTiles(page_stride=32, token=((4, 2),), row=((4, 8), (2, 1)))
ONE, TWO, THREE = torch.tensor([1]), torch.tensor([1, 2]), torch.tensor([1, 2, 3])
Call = Callable[[], object]


def pages(count: int = 2, width: int = 8448) -> Tensor:
    return torch.zeros(count, width, dtype=torch.uint8)


def apart() -> Tensor:
    """Pages of 8448 bytes that lie 9000 apart."""
    return pages(3, 9000)[:, :8448]


def keys(n: int, width: int = 128) -> tuple[Tensor, Tensor]:
    return torch.ones(n, width, dtype=torch.uint8), torch.ones(n, 4, dtype=torch.uint8)


def batch(pool: Tensor, size: int = 64) -> object:
    return gather_index_keys(pool, torch.tensor([2]), torch.tensor([[1]]), 2, size, 128)


def quantised(rows: Tensor) -> None:
    store_quantised_index_keys(pages(), TWO, rows, round_scale=False)


NO_INDEX_KEYS: dict[str, tuple[Call, str]] = {
    "fewer keys": (lambda: store_index_keys(pages(), THREE, *keys(2)), r"uint8 \(3, 128\) for 3"),
    "fewer scales": (
        lambda: store_index_keys(pages(), THREE, keys(3)[0], keys(2)[1]),
        r"uint8 \(3, 4\) for 3",
    ),
    "keys of floats": (
        lambda: store_index_keys(pages(), TWO, torch.ones(2, 128), keys(2)[1]),
        r"store_index_keys: rows are torch.float32 \(2, 128\); served are torch.uint8",
    ),
    "a scale as a number": (
        lambda: store_index_keys(pages(), TWO, keys(2)[0], torch.ones(2, 1)),
        r"rows are torch.float32 \(2, 1\)",
    ),
    "keys of another width": (
        lambda: store_index_keys(pages(), TWO, *keys(2, 100)),
        r"served are torch.uint8 \[pages, a multiple of 104\]",
    ),
    "pages of another dtype": (
        lambda: store_index_keys(pages().view(torch.int8), TWO, *keys(2)),
        r"store_index_keys: pages are torch.int8 \(2, 8448\), token_rows; served are torch.uint8",
    ),
    "quantised integers": (
        lambda: quantised(torch.ones(2, 128, dtype=torch.int16)),
        "store_quantised_index_keys: rows are torch.int16",
    ),
    "quantised, fewer": (lambda: quantised(torch.ones(1, 128)), r"\(2, 128\) for 2 locations"),
    "quantised, another rank": (lambda: quantised(torch.ones(2, 1, 128)), r"rows are .*\(2, 1,"),
    "store apart": (lambda: store_index_keys(apart(), TWO, *keys(2)), "served are dense pages"),
    "load apart": (lambda: load_index_keys(apart(), TWO, 128), "served are dense pages"),
    "move apart": (
        lambda: move_index_keys(apart(), TWO, TWO, 128),
        r"move_index_keys: pages \(3, 8448\) have strides \(9000, 1\)",
    ),
    "move apart in a layer": (
        lambda: move_index_key_sets([pages(3), apart()], TWO, TWO, 128),
        r"move_index_key_sets: pages \(3, 8448\) have strides \(9000, 1\)",
    ),
    "move in layers of two sizes": (
        lambda: move_index_key_sets([pages(), pages(2, 132)], TWO, TWO, 128),
        r"pages of \[132, 8448\] bytes",
    ),
    "gather apart": (lambda: batch(apart()), r"gather_index_keys: pages .* strides \(9000, 1\)"),
    "gather from pages of another size": (lambda: batch(pages(), 32), "index_page_size=32"),
}

NO_TILES: dict[str, tuple[Call, str]] = {
    "other dtype": (
        lambda: store_tiled_rows(torch.zeros(96).bfloat16(), ONE, torch.ones(1, 8), TILES),
        r"rows are torch.float32 \(1, 8\), must be torch.bfloat16 of 8 elements each for 1",
    ),
    "fewer rows": (
        lambda: store_tiled_rows(torch.zeros(96), THREE, torch.ones(2, 8), TILES),
        "of 8 elements each for 3 locations",
    ),
    "longer rows": (
        lambda: store_tiled_rows(torch.zeros(96), ONE, torch.ones(1, 3, 4), TILES),
        r"rows are torch.float32 \(1, 3, 4\)",
    ),
    "store strided": (
        lambda: store_tiled_rows(torch.zeros(192)[::2], ONE, torch.ones(1, 8), TILES),
        r"store_tiled_rows: torch.float32 \(96,\) has strides \(2,\); served are dense pages of 32",
    ),
    "gather strided": (
        lambda: gather_tiled_rows(torch.zeros(192)[::2], ONE, TILES),
        r"gather_tiled_rows: .* has strides \(2,\)",
    ),
    "part of a page": (
        lambda: gather_tiled_rows(torch.zeros(90), ONE, TILES),
        "served are dense pages of 32 elements",
    ),
    "convert from pages apart": (
        lambda: convert_pages(
            torch.zeros(3, 40)[:, :32], TILES, ONE, torch.zeros(3, 32), TILES, ONE
        ),
        r"convert_pages: .* has strides \(40, 1\)",
    ),
    "convert into pages apart": (
        lambda: convert_pages(
            torch.zeros(3, 32), TILES, ONE, torch.zeros(3, 40)[:, :32], TILES, ONE
        ),
        r"convert_pages: .* has strides \(40, 1\)",
    ),
}


@pytest.mark.parametrize("case", NO_INDEX_KEYS | NO_TILES)
def test_what_is_not_served_is_refused(case: str) -> None:
    call, message = (NO_INDEX_KEYS | NO_TILES)[case]
    with pytest.raises(ValueError, match=message):
        call()


LOCATED: dict[str, Callable[[Tensor], object]] = {
    "store_index_keys": lambda loc: store_index_keys(pages(), loc, *keys(len(loc))),
    "store_quantised_index_keys": lambda loc: store_quantised_index_keys(
        pages(), loc, torch.ones(len(loc), 128), round_scale=False
    ),
    "load_index_keys": lambda loc: load_index_keys(pages(), loc, 128),
    "store_tiled_rows": lambda loc: store_tiled_rows(
        torch.zeros(96), loc, torch.ones(len(loc), 8), TILES
    ),
    "gather_tiled_rows": lambda loc: gather_tiled_rows(torch.zeros(96), loc, TILES),
}


@pytest.mark.parametrize("operation", LOCATED)
def test_locations_are_integers_of_the_pool(operation: str) -> None:
    call = LOCATED[operation]
    with pytest.raises(TypeError, match=r"loc is .*float32, must be"):
        call(torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="must be one-dimensional"):
        call(torch.tensor([[1, 2]]))
    with pytest.raises(IndexError, match="is past the last row"):
        call(torch.tensor([1, 128]))


def test_pages_that_lie_apart_have_no_slots_between_them() -> None:
    tiles = RowTiles(page_stride=64, token=((4, 2),), row=((4, 8), (2, 1)))
    with pytest.raises(IndexError, match="location 12 is past the last row 11"):
        store_tiled_rows(torch.zeros(192), torch.tensor([12]), torch.ones(1, 8), tiles)
