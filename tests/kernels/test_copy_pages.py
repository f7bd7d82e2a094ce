"""Pages between a pool and contiguous memory, against loops over pages, layers and tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvproto.kernels import PageOrder, by_layer, gather_pages, scatter_pages

pytestmark = pytest.mark.usefixtures("host_or_device")

LAYERS, PAGES, PAGE_SIZE, WIDTH = 3, 5, 4, 6
SHAPES: dict[PageOrder, tuple[int, ...]] = {
    "layer_first": (LAYERS, 4, PAGE_SIZE, WIDTH),
    "page_first": (4, PAGE_SIZE, LAYERS, WIDTH),
    "page_first_direct": (4, LAYERS, PAGE_SIZE, WIDTH),
}


def pool() -> list[Tensor]:
    buffers = [torch.randn(PAGES * PAGE_SIZE, 2, WIDTH // 2) for _ in range(LAYERS)]
    for buffer in buffers:
        buffer[:PAGE_SIZE] = 0
    return buffers


def place(order: PageOrder, layer: int, number: int, token: int) -> tuple[int, int, int]:
    """Where the row of a token is in memory of that order."""
    if order == "layer_first":
        return layer, number, token
    return (number, token, layer) if order == "page_first" else (number, layer, token)


@pytest.mark.parametrize("order", list(SHAPES))
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_every_row_is_where_the_order_has_it(order: PageOrder, dtype: torch.dtype) -> None:
    buffers, memory = pool(), torch.full(SHAPES[order], 7.0)
    pages = torch.tensor([3, 0, 4, -1], dtype=dtype)
    gather_pages(buffers, pages, by_layer(memory, order))
    other = [torch.zeros_like(buffer) for buffer in buffers]
    scatter_pages(other, pages, by_layer(memory, order))
    for layer in range(LAYERS):
        expected = torch.zeros_like(buffers[layer])
        for number, page in enumerate(pages.tolist()):
            for token in range(PAGE_SIZE):
                row = memory[place(order, layer, number, token)]
                slot = max(page, 0) * PAGE_SIZE + token
                assert torch.equal(row, buffers[layer][slot].flatten())
                if page > 0:
                    expected[slot] = buffers[layer][slot]
        assert torch.equal(other[layer], expected)


def test_what_does_not_fit_is_refused() -> None:
    buffers, pages = pool(), torch.tensor([1, 2])
    memory = torch.zeros(LAYERS, 2, PAGE_SIZE, WIDTH)
    for wrong in (memory[:, :1], memory[:2], memory[..., :5], memory.double()):
        with pytest.raises(ValueError, match="must be"):
            gather_pages(buffers, pages, wrong)
    with pytest.raises(IndexError):
        gather_pages(buffers, torch.tensor([1, PAGES]), memory)
    with pytest.raises(IndexError):
        scatter_pages(buffers, torch.tensor([1, PAGES]), memory + 1)
    assert not memory.any()


def test_layers_of_other_strides_are_refused() -> None:
    """A kernel would copy one as if its rows were as far apart as those of the first."""
    buffers, pages = pool(), torch.tensor([1, 2])
    memory = torch.ones(LAYERS, 2, PAGE_SIZE, WIDTH)
    apart = torch.zeros(PAGES * PAGE_SIZE, 2, 2, WIDTH // 2)[:, 1]
    mixed = [buffers[0], apart, buffers[2]]
    transposed = [buffer.transpose(1, 2).contiguous().transpose(1, 2) for buffer in buffers]
    for wrong in (mixed, transposed):
        before = [buffer.clone() for buffer in wrong]
        with pytest.raises(ValueError, match="as far apart in all layers; nothing was written"):
            scatter_pages(wrong, pages, memory)
        with pytest.raises(ValueError, match="as far apart in all layers; nothing was written"):
            gather_pages(wrong, pages, memory)
        assert all(map(torch.equal, wrong, before))
    assert (memory == 1).all()


def test_rows_as_far_apart_in_all_layers_are_copied() -> None:
    wide = [torch.randn(PAGES * PAGE_SIZE, 2, 2, WIDTH // 2) for _ in range(LAYERS)]
    buffers, pages = [each[:, 1] for each in wide], torch.tensor([3])
    memory = torch.zeros(LAYERS, 1, PAGE_SIZE, WIDTH)
    gather_pages(buffers, pages, memory)
    for layer, buffer in enumerate(buffers):
        rows = buffer[3 * PAGE_SIZE : 4 * PAGE_SIZE].reshape(PAGE_SIZE, WIDTH)
        assert torch.equal(memory[layer, 0], rows)
