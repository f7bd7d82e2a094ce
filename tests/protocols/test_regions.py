"""Layout descriptions against torch's own strides, and the figures of public layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    Axis,
    BufferRegion,
    Field,
    Tile,
    buf_infos,
    peer_differences,
    row_major,
)
from kvproto.protocols.layout import ElementType

PAGES, PAGE, HEADS, DIM = 3, 8, 2, 32


def region_of(*fields: Field, page_bytes: int, **changes: Any) -> BufferRegion:
    given: dict[str, Any] = {
        "layer_ids": (4,),
        "bases": (0,),
        "page_count": PAGES,
        "page_size": PAGE,
        "bytes_per_page": page_bytes,
        "fields": fields,
    }
    return BufferRegion(**(given | changes))


def assert_addresses_match(region: BufferRegion, logical: torch.Tensor) -> None:
    """`logical[page, token, head, dim]` is a torch view of the storage the region describes."""
    start = logical.data_ptr()
    for index in [(0, 0, 0, 0), (1, 3, 1, 17), (2, 7, 1, 31), (2, 5, 0, 15), (0, 7, 0, 16)]:
        page, token, head, dim = index
        expected = logical[index].data_ptr() - start
        assert region.address(4, page, token, head, dim) == expected, index


def test_nhd_rows_lie_as_torch_lays_them() -> None:
    pool = torch.empty(PAGES, PAGE, HEADS, DIM, dtype=torch.bfloat16)
    axes = row_major("bfloat16", ("token", PAGE), ("head", HEADS), ("dim", DIM))
    region = region_of(Field("key", "bfloat16", axes), page_bytes=pool[0].nbytes)
    assert_addresses_match(region, pool)


def test_hnd_pages_lie_as_torch_lays_them() -> None:
    pool = torch.empty(PAGES, HEADS, PAGE, DIM, dtype=torch.float16)
    token, head, dim = (Tile(PAGE, DIM * 2),), (Tile(HEADS, PAGE * DIM * 2),), (Tile(DIM, 2),)
    axes = (Axis("token", token), Axis("head", head), Axis("dim", dim))
    region = region_of(Field("key", "float16", axes), page_bytes=pool[0].nbytes)
    assert_addresses_match(region, pool.permute(0, 2, 1, 3))


def test_x_packed_keys_lie_as_torch_lays_them() -> None:
    x = 16 // 2
    pool = torch.empty(PAGES, HEADS, DIM // x, PAGE, x, dtype=torch.bfloat16)
    axes = (
        Axis("token", (Tile(PAGE, x * 2),)),
        Axis("head", (Tile(HEADS, DIM * PAGE * 2),)),
        Axis("dim", (Tile(DIM // x, PAGE * x * 2), Tile(x, 2))),
    )
    region = region_of(Field("key", "bfloat16", axes), page_bytes=pool[0].nbytes)
    start = pool.data_ptr()
    for page, token, head, dim in [(0, 0, 0, 0), (2, 7, 1, 31), (1, 4, 0, 9)]:
        expected = pool[page, head, dim // x, token, dim % x].data_ptr() - start
        assert region.address(4, page, token, head, dim) == expected


@pytest.mark.parametrize(("element", "c0"), [("bfloat16", 16), ("int8", 32)])
def test_nz_pages_use_the_element_size_for_c0(element: ElementType, c0: int) -> None:
    width, itemsize = 64, 32 // c0
    pool = torch.empty(PAGES, width // c0, PAGE, c0, dtype=getattr(torch, element))
    axes = (
        Axis("token", (Tile(PAGE, c0 * itemsize),)),
        Axis("dim", (Tile(width // c0, PAGE * c0 * itemsize), Tile(c0, itemsize))),
    )
    region = region_of(Field("latent", element, axes), page_bytes=pool[0].nbytes)
    for token, channel in [(0, 0), (7, 63), (3, 33)]:
        expected = pool[1, channel // c0, token, channel % c0].data_ptr() - pool.data_ptr()
        assert region.address(4, 1, token, channel) == expected


def test_preshuffled_index_keys_tile_both_axes() -> None:
    tokens, width = 64, 128
    pool = torch.empty(tokens // 16, width // 16, 16, 16, dtype=torch.uint8)
    axes = (
        Axis("token", (Tile(4, width * 16), Tile(16, 16))),
        Axis("dim", (Tile(8, 256), Tile(16, 1))),
    )
    field = Field("index_key", "uint8", axes)
    for token, channel in [(0, 0), (63, 127), (17, 40)]:
        expected = pool[token // 16, channel // 16, token % 16, channel % 16].data_ptr()
        assert field.at(token, channel) == expected - pool.data_ptr()


def test_packed_row_of_latent_scales_and_rope_is_656_bytes() -> None:
    def row(count: int, stride: int) -> tuple[Axis, Axis]:
        return Axis("token", (Tile(64, 656),)), Axis("dim", (Tile(count, stride),))

    latent = Field("latent", "float8_e4m3fn", row(512, 1))
    scale = Field("scale", "float32", row(4, 4), offset=512)
    rope = Field("rope", "bfloat16", row(64, 2), offset=528)
    region = region_of(latent, scale, rope, page_bytes=64 * 656, page_size=64)
    assert rope.at(0, 63) + 2 == 656
    assert region.address(4, 1, 2, 3, field="scale") == 64 * 656 + 2 * 656 + 512 + 12


def test_index_page_holds_keys_then_scales() -> None:
    keys = Field(
        "index_key", "float8_e4m3fn", row_major("float8_e4m3fn", ("token", 64), ("dim", 128))
    )
    scales = Field("scale", "float32", row_major("float32", ("token", 64)), offset=64 * 128)
    region = region_of(keys, scales, page_bytes=8448, page_size=64)
    assert region.address(4, 2, 2, field="scale") == 2 * 8448 + 8192 + 8
    assert buf_infos([region]) == ([0], [3 * 8448], [8448])


def test_addresses_do_not_wrap_past_two_gib() -> None:
    field = Field("key", "uint8", row_major("uint8", ("token", 1), ("dim", 149760)))
    region = region_of(field, page_bytes=149760, page_size=1, page_count=14400)
    assert region.page_address(4, 14339) == 2147408640
    assert region.page_address(4, 14340) == 2147558400


@pytest.mark.parametrize("layer_id", [3, 5, -1, 0])
def test_a_layer_that_is_not_held_is_refused(layer_id: int) -> None:
    field = Field("key", "uint8", row_major("uint8", ("token", PAGE), ("dim", 4)))
    with pytest.raises(ValueError, match=f"layer_id {layer_id} is not here, the region holds"):
        region_of(field, page_bytes=PAGE * 4).page_address(layer_id, 0)


def test_indices_outside_an_axis_are_refused() -> None:
    field = Field("key", "uint8", row_major("uint8", ("token", PAGE), ("dim", 4)))
    region = region_of(field, page_bytes=PAGE * 4)
    for page, token, dim in [(3, 0, 0), (-1, 0, 0), (0, PAGE, 0), (0, -1, 0), (0, 0, 4)]:
        with pytest.raises(IndexError):
            region.address(4, page, token, dim)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bases": (0, 64)}, "2 bases for 1 layers"),
        ({"bases": (3,), "alignment": 2}, "not a multiple of alignment 2"),
        ({"page_stride": 16}, "pages of 32 bytes lie 16 apart"),
        ({"bytes_per_page": 31}, "key ends at byte 32 of 31"),
        ({"page_size": 4}, "first axis is not 4 tokens"),
        ({"layer_ids": (1, 1), "bases": (0, 0)}, "named twice"),
    ],
)
def test_impossible_regions_are_refused(changes: dict[str, object], words: str) -> None:
    field = Field("key", "uint8", row_major("uint8", ("token", PAGE), ("dim", 4)))
    with pytest.raises(ValueError, match=words):
        region_of(field, page_bytes=PAGE * 4, **changes)


def keys(element: ElementType, page: int, *, hnd: bool = False, pages: int = 4) -> BufferRegion:
    width = 2 * 128
    axes = row_major(element, ("token", page), ("head", 2), ("dim", 128))
    size = Field("key", element, axes).element_bytes
    if hnd:
        head, token, dim = row_major(element, ("head", 2), ("token", page), ("dim", 128))
        axes = (token, head, dim)
    return BufferRegion(
        layer_ids=(0,),
        bases=(0,),
        page_count=pages,
        page_size=page,
        bytes_per_page=page * width * size,
        fields=(Field("key", element, axes),),
    )


def test_peers_with_equal_item_length_are_still_told_apart() -> None:
    fp8, bf16 = keys("float8_e4m3fn", 64), keys("bfloat16", 32)
    assert fp8.bytes_per_page == bf16.bytes_per_page == 16384
    lines = peer_differences([fp8], [bf16])
    assert any("page_size: 64 here, 32 there" in line for line in lines)


@pytest.mark.parametrize(
    "other",
    [
        keys("bfloat16", 64, hnd=True),
        keys("float16", 64),
    ],
)
def test_peers_with_another_order_or_type_are_refused(other: BufferRegion) -> None:
    assert peer_differences([keys("bfloat16", 64)], [other])
    assert keys("bfloat16", 64).fingerprint.digest() != other.fingerprint.digest()


def test_fp8_variants_are_told_apart() -> None:
    assert peer_differences([keys("float8_e4m3fn", 64)], [keys("float8_e4m3fnuz", 64)])


def test_peers_may_differ_in_size_only() -> None:
    assert peer_differences([keys("bfloat16", 64)], [keys("bfloat16", 64, pages=9)]) == []


def test_peers_with_another_number_of_regions_are_refused() -> None:
    one = keys("bfloat16", 64)
    assert peer_differences([one], [one, one]) == ["number of regions: 1 here, 2 there"]
