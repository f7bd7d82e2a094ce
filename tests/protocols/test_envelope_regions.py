"""Regions whose pages hold all layers: addresses counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from kvproto.protocols import (
    Axis,
    BufferRegion,
    Field,
    HostLayout,
    HostRegion,
    HostSpan,
    Tile,
    buf_infos,
    peer_differences,
    row_major,
)

PAGE, KEY, VALUE, LAYERS, ENTRY = 2, 16, 8, (4, 7, 9), 80
"""Three layers of 16 + 8 bytes make 72, and 8 of padding an entry of 80."""

TOKEN = Axis("token", (Tile(PAGE, ENTRY),))
LAYER = Axis("layer", (Tile(len(LAYERS), KEY + VALUE),))


def rows(name: Any, width: int, at: int) -> Field:
    return Field(name, "bfloat16", (TOKEN, LAYER, *row_major("bfloat16", ("dim", width // 2))), at)


def region(**changes: Any) -> BufferRegion:
    padding = Field("padding", "uint8", (TOKEN, *row_major("uint8", ("dim", 8))), 72)
    fields: dict[str, Any] = {
        "layer_ids": LAYERS,
        "bases": (1000,),
        "page_count": 5,
        "page_size": PAGE,
        "bytes_per_page": PAGE * ENTRY,
        "fields": (rows("key", KEY, 0), rows("value", VALUE, KEY), padding),
    }
    return BufferRegion(**fields | changes)


def test_an_element_of_a_layer_is_in_the_entry_of_its_token() -> None:
    for step, layer_id in enumerate(LAYERS):
        assert region().page_address(layer_id, 3) == 1000 + 3 * 160
        for name, at in (("key", 0), ("value", KEY)):
            expected = 1000 + 3 * 160 + 1 * 80 + step * 24 + at + 2 * 2
            assert region().address(layer_id, 3, 1, 2, field=name) == expected
    with pytest.raises(ValueError, match="layer_id 5 is not here"):
        region().address(5, 0, 0, 0)


def test_all_layers_are_one_entry_and_counted_once() -> None:
    assert region().is_envelope
    assert region().nbytes == 5 * 160
    assert buf_infos([region()]) == ([1000], [800], [160])


def test_a_field_in_a_layer_has_no_layer_axis() -> None:
    value = region().in_layer(7, region().field("value"))
    assert (value.offset, value.shape) == (24 + KEY, (PAGE, VALUE // 2))
    padding = region().field("padding")
    assert region().in_layer(7, padding) == padding


def test_peers_with_other_layers_or_other_places_are_told_apart() -> None:
    assert peer_differences([region()], [region(bases=(2000,), page_count=9)]) == []
    assert peer_differences([region()], [region(layer_ids=(4, 7, 8))])
    keys_last = (rows("key", KEY, VALUE), rows("value", VALUE, 0))
    assert peer_differences([region()], [region(fields=keys_last)])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bases": (1000, 2000, 3000)}, "3 bases for 3 layers"),
        ({"layer_ids": (4, 7)}, "key's second axis is not 2 layers"),
        (
            {"fields": (rows("key", KEY, 0), replace(rows("value", VALUE, KEY), axes=(TOKEN,)))},
            "value's second axis is not 3 layers",
        ),
    ],
)
def test_impossible_envelopes_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        region(**changes)


@pytest.mark.parametrize("layout", get_args(HostLayout))
def test_host_memory_holds_whole_envelopes_and_loads_them_by_layer(layout: HostLayout) -> None:
    mirror = HostRegion(region=region(), layout=layout, page_count=2)
    assert (mirror.page_bytes, mirror.nbytes) == (160, 320)
    assert mirror.spans(7, 1) == (
        HostSpan(160 + 24, 24, KEY),
        HostSpan(160 + 80 + 24, 80 + 24, KEY),
        HostSpan(160 + 24 + KEY, 24 + KEY, VALUE),
        HostSpan(160 + 80 + 24 + KEY, 80 + 24 + KEY, VALUE),
    )
    touched = sorted(
        byte
        for layer_id in LAYERS
        for span in mirror.spans(layer_id, 0)
        for byte in range(span.host, span.host + span.nbytes)
    )
    assert touched == [byte for byte in range(160) if byte % 80 < 72]
