"""Which bytes stand for which numbers, all 256 of them, against the formats' definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.conformance.oracle import Oracle, oracle_for, peek
from kvproto.protocols import (
    BufferRegion,
    Fp8Variant,
    LeafRequest,
    checkpoint_scale,
    peer_differences,
)
from tests.adapters.rocm.leaves import (
    FN,
    FNUZ,
    PLATFORMS,
    built,
    declined,
    heads,
    latents,
    numbers,
    on_each,
)

PAGE, SLOT = 32, 37
SHOWN = {FN: 0x7F, FNUZ: 0x80}
"""What a NaN is stored as."""
VARIANT: dict[torch.dtype, Fp8Variant] = {FN: "e4m3fn", FNUZ: "e4m3fnuz"}
REQUESTS: dict[str, Callable[[torch.dtype], LeafRequest]] = {
    "nhd": lambda dtype: heads(dtype=dtype),
    "vectorized_5d": lambda dtype: heads(dtype=dtype, layout="vectorized_5d"),
    "latent_rows": lambda dtype: latents(dtype=dtype),
}

in_each_layout = pytest.mark.parametrize("layout", REQUESTS)


def asked(layout: str, dtype: torch.dtype) -> LeafRequest:
    return REQUESTS[layout](dtype)


def written(leaf: Any, row: Tensor, scale: float | Tensor | None = None) -> Oracle:
    """That row of 256 in every head of one slot of the first layer, keys and values alike."""
    count = leaf.head_num if leaf.pool_traits.kind == "mha" else 1
    rows = row.expand(1, count, 256)
    layer = SimpleLayer(leaf.start_layer)
    if scale is None:
        leaf.set_kv_buffer(layer, torch.tensor([SLOT]), rows, rows)
    else:
        leaf.set_kv_buffer(layer, torch.tensor([SLOT]), rows, rows, scale, scale)
    return oracle_for(leaf)


class SimpleLayer:
    def __init__(self, layer_id: int) -> None:
        self.layer_id = layer_id


def stored(leaf: Any) -> list[list[int]]:
    """The bytes of the slot's rows in the first layer, by head and side, element after element."""
    found: list[list[int]] = []
    for region in leaf.buffer_regions():
        layer, (page, token) = region.layer_ids[0], divmod(SLOT, PAGE)
        if region.fields[0].name == "latent":
            found.append([*_along(region, layer, "latent"), *_along(region, layer, "rope")])
            continue
        field = region.fields[0]
        for head in range(field.shape[1]):
            at = (region.address(layer, page, token, head, i) for i in range(field.shape[2]))
            found.append([peek(address, 1)[0] for address in at])
    return found


def _along(region: BufferRegion, layer: int, name: str) -> list[int]:
    page, token = divmod(SLOT, PAGE)
    width = region.field(name).shape[1]
    at = (region.address(layer, page, token, i, field=name) for i in range(width))
    return [peek(address, 1)[0] for address in at]


@on_each
@in_each_layout
def test_every_number_of_the_format_is_stored_as_its_byte(layout: str, dtype: torch.dtype) -> None:
    leaf = built(PLATFORMS[dtype], asked(layout, dtype))
    written(leaf, numbers(dtype))
    expected = [SHOWN[dtype] if math.isnan(n) else i for i, n in enumerate(numbers(dtype).tolist())]
    assert all(row == expected for row in stored(leaf))
    assert (leaf.dtype, leaf.store_dtype) == (dtype, torch.uint8)
    assert leaf.pool_traits.fp8_variant == VARIANT[dtype]


@on_each
@in_each_layout
def test_every_byte_reads_as_its_number_through_the_door(layout: str, dtype: torch.dtype) -> None:
    """Whatever wrote them: against torch's own type, and against the definition."""
    leaf = built(PLATFORMS[dtype], asked(layout, dtype))
    door = leaf.get_key_buffer(leaf.start_layer)
    assert door.dtype == dtype
    patterns = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    raw = door.view(torch.uint8).view(-1)
    raw.copy_(patterns.repeat(raw.numel() // 256))
    read = door.float().reshape(-1, 256)
    expected = numbers(dtype)
    assert torch.equal(read.nan_to_num(nan=999.0), expected.nan_to_num(nan=999.0).expand_as(read))
    assert torch.equal(patterns.view(dtype).float().isnan(), expected.isnan())


@on_each
@in_each_layout
def test_what_is_too_large_is_the_largest_and_nan_stays(layout: str, dtype: torch.dtype) -> None:
    leaf = built(PLATFORMS[dtype], asked(layout, dtype))
    largest = {FN: 448.0, FNUZ: 240.0}[dtype]
    given = [largest, largest * 1.01, 1000.0, -1000.0, math.inf, -math.inf, math.nan, -0.0]
    written(leaf, torch.tensor(given).repeat(32))
    top = {FN: 0x7E, FNUZ: 0x7F}[dtype]
    zero = {FN: 0x80, FNUZ: 0x00}[dtype]
    held = [top, top, top, top | 0x80, top, top | 0x80, SHOWN[dtype], zero]
    assert all(row == held * 32 for row in stored(leaf))


@on_each
def test_rows_that_are_fp8_already_are_numbers_and_no_bytes(dtype: torch.dtype) -> None:
    """Each number of the other format, to the nearest that this one has; never its bits."""
    other = FN if dtype == FNUZ else FNUZ
    leaf = built(PLATFORMS[dtype], heads(dtype=dtype))
    patterns = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    written(leaf, patterns.view(other))
    own, given = numbers(dtype), numbers(other)
    limit = float(own.nan_to_num().max())
    found = stored(leaf)[0]
    for byte, number in zip(found, given.tolist(), strict=True):
        if math.isnan(number):
            assert math.isnan(float(own[byte]))
        else:
            held = max(-limit, min(limit, number))
            assert abs(float(own[byte]) - held) == float((own - held).abs().nan_to_num(1e9).min())
    assert sum(byte != pattern for pattern, byte in enumerate(found)) > 200


@pytest.mark.parametrize("scale", [1.0, 0.03125, 0.7, torch.tensor(0.7), torch.tensor([2.5])])
def test_a_checkpoints_scale_keeps_numbers_and_bits(scale: float | Tensor) -> None:
    """Doubled on gfx942, what was calibrated for e4m3fn is stored in the bits of e4m3fn."""
    numbers_of_fn = numbers(FN)
    finite = numbers_of_fn.nan_to_num(0.0) * scale
    found: dict[torch.dtype, list[int]] = {}
    for dtype, platform in PLATFORMS.items():
        leaf = built(platform, heads(dtype=dtype))
        own = checkpoint_scale(scale, leaf.pool_traits.fp8_variant)
        written(leaf, finite, own)
        found[dtype] = stored(leaf)[0]
        read = numbers(dtype)[torch.tensor(found[dtype])] * own
        assert torch.equal(read, numbers_of_fn.nan_to_num(0.0) * scale)
    assert [byte & 0x7F if byte == 0x80 else byte for byte in found[FN]] == found[FNUZ]
    assert 0x80 not in found[FNUZ]


def test_scales_between_formats() -> None:
    assert checkpoint_scale(0.5, "e4m3fn") == 0.5
    assert checkpoint_scale(0.5, "e4m3fnuz") == 1.0
    assert checkpoint_scale(0.5, "e4m3fn", "e4m3fnuz") == 0.25
    assert checkpoint_scale(0.5, "e5m2fnuz", "e5m2") == 1.0
    assert checkpoint_scale(0.5, "none") == 0.5
    kept = torch.tensor([0.5])
    assert checkpoint_scale(kept, "e4m3fnuz").tolist() == [1.0]
    assert kept.tolist() == [0.5]
    with pytest.raises(ValueError, match="found for e4m3fn says nothing of rows in e5m2"):
        checkpoint_scale(0.5, "e5m2")


@in_each_layout
def test_peers_of_both_variants_refuse_each_other(layout: str) -> None:
    fnuz, fn = (
        built(platform, asked(layout, dtype)).buffer_regions()
        for dtype, platform in PLATFORMS.items()
    )
    said = peer_differences(fnuz, fn)
    assert len(said) == len(fnuz)
    assert all("float8_e4m3fnuz" in line and "float8_e4m3fn'" in line for line in said)
    assert {r.fingerprint.digest() for r in fnuz}.isdisjoint(r.fingerprint.digest() for r in fn)


@on_each
@in_each_layout
def test_the_other_variant_is_declined(layout: str, dtype: torch.dtype) -> None:
    """Asked for e4m3fn, a gfx942 neither stores it nor hands out its own in its name."""
    for other in (FN, FNUZ, torch.float8_e5m2, torch.float8_e5m2fnuz):
        if other == dtype:
            continue
        said = declined(PLATFORMS[dtype], asked(layout, other))
        assert f"dtype={other}: the device's numbers are {dtype}" in said
