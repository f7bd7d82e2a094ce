"""What a transfer engine registers, out of what a pool says of its bytes."""

from __future__ import annotations

import pytest

from kvproto.protocols import BufferRegion, Field, registered_spans, row_major

AXES = row_major("uint8", ("token", 4), ("dim", 10))


def region(*bases: int, unit: int = 1, pages: int = 3) -> BufferRegion:
    """Pages of 40 bytes."""
    return BufferRegion(
        layer_ids=tuple(range(len(bases))),
        bases=bases,
        page_count=pages,
        page_size=4,
        bytes_per_page=40,
        fields=(Field("key", "uint8", AXES),),
        registration_alignment=unit,
    )


def test_each_buffer_is_registered_where_nothing_is_asked_of_its_place() -> None:
    assert registered_spans([region(7, 127), region(1000)]) == [(7, 120), (127, 120), (1000, 120)]
    assert registered_spans([]) == []


def test_layers_that_follow_each_other_are_registered_together_in_whole_units() -> None:
    plane = region(256, 376, 496, unit=256)  # 360 bytes
    assert registered_spans([plane, region(1024, unit=256)]) == [(256, 512), (1024, 256)]


def test_layers_of_two_planes_may_take_turns() -> None:
    assert registered_spans([region(256, 1024, 376, 1144, unit=256)]) == [(256, 256), (1024, 256)]


def test_a_layer_that_begins_a_unit_begins_a_span() -> None:
    assert registered_spans([region(240, 360, unit=120)]) == [(240, 120), (360, 120)]


@pytest.mark.parametrize("bases", [(255,), (256, 377), (256, 512, 600)])
def test_a_buffer_that_begins_elsewhere_is_no_region(bases: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="neither continues another nor is a multiple of 256"):
        region(*bases, unit=256)
