"""Offsets into host memory, counted by hand, and by the shapes that engines allocate."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from kvproto.protocols import (
    BufferRegion,
    DSALeafRequest,
    Field,
    HostLayout,
    HostRegion,
    HostSpan,
    row_major,
)
from kvproto.reference import DSALeaf

LAYOUTS = get_args(HostLayout)


def rows(layers: tuple[int, ...] = (4, 7), page_size: int = 2, width: int = 3) -> BufferRegion:
    axes = row_major("uint8", ("token", page_size), ("dim", width))
    return BufferRegion(
        layer_ids=layers,
        bases=(0,) * len(layers),
        page_count=9,
        page_size=page_size,
        bytes_per_page=page_size * width,
        fields=(Field("latent", "uint8", axes),),
    )


def shape_of(layout: HostLayout, pages: int, layers: int, page_size: int) -> tuple[int, ...]:
    """What engines allocate for rows; the last axis is a token's bytes."""
    match layout:
        case "layer_first":
            return layers, pages * page_size
        case "page_first":
            return pages * page_size, layers
        case "page_first_direct":
            return pages, layers, page_size


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_lie_where_a_tensor_of_that_shape_has_them(layout: HostLayout) -> None:
    pages, region = 3, rows()
    mirror = HostRegion(region=region, layout=layout, page_count=pages)
    shape = shape_of(layout, pages, 2, 2)
    numbered = torch.arange(pages * 2 * 2 * 3).view(*shape, 3)
    assert mirror.nbytes == numbered.numel() == 36
    for at, layer_id in enumerate(region.layer_ids):
        for page in range(pages):
            match layout:
                case "layer_first":
                    expected = numbered[at, page * 2 : page * 2 + 2]
                case "page_first":
                    expected = numbered[page * 2 : page * 2 + 2, at]
                case "page_first_direct":
                    expected = numbered[page, at]
            spans = mirror.spans(layer_id, page)
            held = [span.host + i for span in spans for i in range(span.nbytes)]
            assert held == expected.flatten().tolist()
            read = [span.page + i for span in spans for i in range(span.nbytes)]
            assert read == list(range(region.bytes_per_page))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_byte_has_one_place(layout: HostLayout) -> None:
    mirror = HostRegion(region=rows((1, 2, 5), 4, 5), layout=layout, page_count=2)
    spans = [s for i in (1, 2, 5) for page in range(2) for s in mirror.spans(i, page)]
    held = sorted(span.host + i for span in spans for i in range(span.nbytes))
    assert held == list(range(mirror.nbytes))


@pytest.mark.parametrize("layout", ["page_first", "page_first_direct"])
def test_a_page_is_one_run_in_all_its_layers(layout: HostLayout) -> None:
    mirror = HostRegion(region=rows(), layout=layout, page_count=3)
    spans = [s for layer_id in (4, 7) for s in mirror.spans(layer_id, 1)]
    held = sorted(span.host + i for span in spans for i in range(span.nbytes))
    assert held == list(range(mirror.page_bytes, 2 * mirror.page_bytes))


def test_a_packed_row_is_656_bytes_and_an_index_page_stays_whole() -> None:
    request = DSALeafRequest(
        size=128,
        page_size=64,
        dtype=torch.float8_e4m3fn,
        quant_scheme="dsa_fp8_packed",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        index_head_dim=128,
        layer_num=2,
        device="cpu",
    )
    latent, index = DSALeaf(**request.keywords()).buffer_regions()
    mirror = HostRegion(region=latent, layout="page_first", page_count=1)
    assert mirror.nbytes == 1312 * 64
    assert mirror.spans(1, 0)[:2] == (HostSpan(656, 0, 656), HostSpan(656 + 1312, 656, 656))
    keys = HostRegion(region=index, layout="page_first", page_count=2)
    assert keys.spans(1, 1) == (HostSpan(3 * 8448, 0, 8448),)


def test_what_is_not_there_is_refused() -> None:
    wrong: Any = {"region": rows(), "layout": "page_first"}
    with pytest.raises(ValueError, match="at least 1"):
        HostRegion(page_count=0, **wrong)
    mirror = HostRegion(page_count=2, **wrong)
    with pytest.raises(ValueError, match="layer_id 5"):
        mirror.spans(5, 0)
    with pytest.raises(IndexError, match="host page 2"):
        mirror.spans(4, 2)
