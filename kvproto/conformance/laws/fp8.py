"""fp8 pools: which bytes stand for which numbers."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import KVPool, LeafRequest, ScaledWrite

from ..broken import LawBroken
from ..kv_bench import KVBench, LayerStub
from ..law import has_layers, law
from .leaf import OWNED

# Written out from the formats' definitions (exponent bias, largest finite, NaN patterns).
SATURATED = {
    torch.float8_e4m3fn: (0x7E, 0xFE),
    torch.float8_e4m3fnuz: (0x7F, 0xFF),
    torch.float8_e5m2: (0x7B, 0xFB),
    torch.float8_e5m2fnuz: (0x7F, 0xFF),
}
ONE = {
    torch.float8_e4m3fn: 0x38,
    torch.float8_e4m3fnuz: 0x40,
    torch.float8_e5m2: 0x3C,
    torch.float8_e5m2fnuz: 0x40,
}


def is_fp8(request: LeafRequest) -> bool:
    """Rows stored in one fp8 type, with a scale per tensor or none at all."""
    return has_layers(request) and request.quant_scheme == "fp8_scaled"


@law(
    "fp8.variant",
    KVPool,
    applies=is_fp8,
    needs=OWNED,
    check="fn and fnuz differ in exponent bias: the same byte is another number",
)
def variant(bench: KVBench) -> None:
    """1.0 is stored as the byte that means 1.0 in the requested variant."""
    _expect_bytes(bench, 1.0, ONE[bench.request.dtype])


@law(
    "fp8.saturates",
    KVPool,
    applies=is_fp8,
    needs=OWNED,
    check="clamp to the variant's finite range before the cast; casts differ between platforms",
)
def saturates(bench: KVBench) -> None:
    """Values and infinities beyond the largest finite number are stored as it, NaN as NaN."""
    high, low = SATURATED[bench.request.dtype]
    for value in (1e6, float("inf")):
        _expect_bytes(bench, value, high)
        _expect_bytes(bench, -value, low)
    _write(bench, float("nan"))
    row = bench.stored("key")[bench.slot_of(1)]
    if not row.isnan().all():
        raise LawBroken("set_kv_buffer(NaN)", expected="NaN", got=str(row))


@law(
    "fp8.scales",
    ScaledWrite,
    KVPool,
    applies=is_fp8,
    needs=OWNED,
    check="stored = x / scale; None is 1; a float, a 0-d and a 1-element tensor are the same",
)
def scales(bench: KVBench) -> None:
    """Rows are divided by their own scale, however it is passed, and the input is left alone."""
    k, v = bench.pair(1)
    k, v = torch.full_like(k, 3.0), torch.full_like(v, 3.0)
    half, quarter = torch.tensor(0.5), torch.tensor(0.25)
    forms = ((0.5, 0.25), (half, quarter), (half.view(1), quarter.view(1)))
    for k_scale, v_scale in forms:
        layer = LayerStub(bench.layer_ids[0])
        bench.pool.set_kv_buffer(layer, torch.tensor([1]), k, v, k_scale, v_scale)
        if not (torch.all(k == 3.0) and torch.all(v == 3.0)):
            raise LawBroken(
                "set_kv_buffer with scales", expected="inputs of 3.0", got="changed inputs"
            )
        call = "set_kv_buffer(3.0, 3.0, k_scale=0.5, v_scale=0.25)"
        bench.expect_rows(call, "key", {1: torch.full_like(k[0], 6.0)})
        bench.expect_rows(call, "value", {1: torch.full_like(v[0], 12.0)})


@law(
    "fp8.scale-of-one-side",
    ScaledWrite,
    KVPool,
    applies=is_fp8,
    needs=("fp8.scales",),
    check="None is 1.0, for each side by itself; a composite hands None on as None",
)
def scale_of_one_side(bench: KVBench) -> None:
    """A scale that is not given is 1, whether the other side has one or not."""
    k, v = bench.pair(1)
    k, v = torch.full_like(k, 3.0), torch.full_like(v, 3.0)
    for k_scale, v_scale, stored in ((0.5, None, (6.0, 3.0)), (None, 0.25, (3.0, 12.0))):
        layer = LayerStub(bench.layer_ids[0])
        bench.pool.set_kv_buffer(layer, torch.tensor([1]), k, v, k_scale=k_scale, v_scale=v_scale)
        call = f"set_kv_buffer(3.0, 3.0, k_scale={k_scale}, v_scale={v_scale})"
        bench.expect_rows(call, "key", {1: torch.full_like(k[0], stored[0])})
        bench.expect_rows(call, "value", {1: torch.full_like(v[0], stored[1])})


@law(
    "fp8.scales-refused",
    ScaledWrite,
    KVPool,
    applies=is_fp8,
    needs=OWNED,
    check="validate the scale once, where the layer is bound or in the write door",
)
def scales_refused(bench: KVBench) -> None:
    """A scale that is zero, negative or NaN raises."""
    k, v = bench.pair(1)
    for scale in (0.0, -1.0, float("nan")):
        layer = LayerStub(bench.layer_ids[0])
        write = partial(bench.pool.set_kv_buffer, layer, torch.tensor([1]), k, v, scale, 1.0)
        bench.expect_raises(f"set_kv_buffer(k_scale={scale})", write, ValueError)


def _write(bench: KVBench, value: float) -> None:
    k, v = bench.pair(1)
    bench.write(torch.tensor([1]), torch.full_like(k, value), torch.full_like(v, value))


def _expect_bytes(bench: KVBench, value: float, byte: int) -> None:
    _write(bench, value)
    for side in bench.sides:
        raw = bench.stored_raw(side)[bench.slot_of(1)].view(torch.uint8)
        if not torch.all(raw == byte):
            raise LawBroken(
                f"set_kv_buffer({value})",
                expected=f"{side} bytes {byte:#04x} ({bench.request.dtype})",
                got=f"{int(raw.flatten()[0]):#04x}",
            )
