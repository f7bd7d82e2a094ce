# pyright: basic
"""What kernels leave alone, the reserved slot, is zero after a memory saver resumed a pool."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.kernels import gather_tiled_rows
from kvproto.kernels.triton.gather_tiled_rows import plan_gather_tiled_rows
from kvproto.kernels.triton.launch import run
from kvproto.reference import MHALeaf
from kvproto.reference.row_layouts import LAYOUTS
from tests.reference.block_scaled import fp4, mxfp8, nvfp4
from tests.reference.test_mha_layouts import FIND, GEOMETRY

pytestmark = pytest.mark.usefixtures("served_on_cpu")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_every_layout(layout: Any) -> None:
    leaf: Any = MHALeaf(**GEOMETRY, kv_cache_layout=layout)
    for buffer in (*leaf.k_buffer, *leaf.v_buffer):
        buffer.fill_(7)
    leaf.restore_reserved()
    for buffers, find in zip((leaf.k_buffer, leaf.v_buffer), FIND[layout], strict=True):
        for buffer in buffers:
            reserved = find(buffer, 0, 0)
            assert not reserved.any()
            assert (buffer == 7).sum() == buffer.numel() - reserved.numel()


@pytest.mark.parametrize("make", [mxfp8, fp4, nvfp4])
@pytest.mark.parametrize("options", [{}, {"size": 128, "page_size": 128}])
def test_elements_and_scales_of_blocks(make: Any, options: dict[str, int]) -> None:
    leaf = make(**options)
    stored = (*leaf.k_buffer, *leaf.v_buffer, *leaf.k_scale_buffer, *leaf.v_scale_buffer)
    for buffer in stored:
        buffer.view(torch.uint8).fill_(7)
    leaf.restore_reserved()
    for buffer in stored:
        flat, slots = buffer.view(torch.uint8), leaf.size + leaf.page_size
        # `[pages, heads, 32, ...]`, where scales lie interleaved
        reserved = flat[0, :, 0, 0] if flat.dim() == 5 else flat[0]
        assert not reserved.any()
        assert (flat == 7).sum() == flat.numel() // slots * (slots - 1)


def test_what_is_dropped_is_gathered_as_zeros() -> None:
    leaf: Any = MHALeaf(**GEOMETRY, kv_cache_layout="vectorized_5d")
    store = leaf._row_stores()[0]
    store.buffer.fill_(7)
    found = gather_tiled_rows(store.buffer, torch.tensor([0, -1, 8]), store.tiles)
    assert found.any(1).tolist() == [False, False, True]
    past, out = torch.tensor([8, 32, 1 << 40]), store.buffer.new_ones(3, store.tiles.row_elements)
    run(plan_gather_tiled_rows(store.buffer, past, store.tiles, out))
    assert out.any(1).tolist() == [True, False, False]
