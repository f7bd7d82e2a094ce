"""The geometries cover what engines ask for: page sizes, stages, widths, element types."""

from __future__ import annotations

import pytest

from kvproto.conformance.specs import SPECS
from kvproto.protocols import (
    AllocatorKind,
    AllocatorRequest,
    DSALeafRequest,
    HybridPoolRequest,
    MHALeafRequest,
    MLALeafRequest,
    SWAPoolRequest,
)

REQUESTS = [spec.request for spec in SPECS]


@pytest.mark.parametrize("family", [MHALeafRequest, MLALeafRequest, DSALeafRequest])
def test_every_family_of_leaves_is_asked_for_in_every_page_size_and_stage(
    family: type[MHALeafRequest | MLALeafRequest | DSALeafRequest],
) -> None:
    asked = [r for r in REQUESTS if isinstance(r, family) and r.layer_num]
    assert {r.page_size for r in asked} >= {1, 16, 64, 128, 256}
    assert {r.start_layer > 0 for r in asked} == {True, False}
    assert {r.dtype.itemsize == 1 for r in asked} == {True, False}


def test_values_are_narrower_and_wider_than_keys() -> None:
    widths = [
        (r.value_head_dim - r.head_dim, r.dtype.itemsize)
        for r in REQUESTS
        if isinstance(r, MHALeafRequest)
    ]
    assert any(more > 0 for more, _ in widths)
    assert any(more < 0 for more, _ in widths)
    assert any(more and itemsize == 1 for more, itemsize in widths)


def test_composites_are_asked_for_in_fp8_too() -> None:
    pairs = [r for r in REQUESTS if isinstance(r, SWAPoolRequest)]
    hybrids = [r for r in REQUESTS if isinstance(r, HybridPoolRequest)]
    assert any(r.full.dtype.itemsize == 1 and isinstance(r.full, MHALeafRequest) for r in pairs)
    assert any(r.full.dtype.itemsize == 1 and isinstance(r.full, MLALeafRequest) for r in hybrids)
    assert {r.full.page_size for r in pairs} >= {1, 4, 16, 64, 128}


def test_names_are_no_two_alike() -> None:
    names = [spec.name for spec in SPECS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", ["token", "paged"])
def test_an_allocator_is_never_asked_for_a_part_of_a_page(kind: AllocatorKind) -> None:
    with pytest.raises(ValueError, match="round down to 8"):
        AllocatorRequest(kind=kind, size=10, page_size=4, device="cpu")
