"""Rows under block scales: which bytes they become, and where their scales are."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import BlockScaled, Composite, KVPool, ScaledWrite

from ..block_bench import BlockBench, BlockRows
from ..block_codec import is_block_scaled
from ..broken import LawBroken
from ..composite_bench import CompositeBench
from ..kv_bench import LayerStub, Side
from ..law import has_layers, law
from .leaf import OWNED


def has_blocks(request: object, /) -> bool:
    """Rows under block scales, and a layer to write them to."""
    return is_block_scaled(request) and has_layers(request)


def takes_own_scales(request: object, /) -> bool:
    """Rows that may come with block scales of their own."""
    return has_blocks(request) and getattr(request, "quant_scheme", "") == "mxfp8"


def takes_a_tensor_scale(request: object, /) -> bool:
    """Rows that one scale for all of them may divide first."""
    return has_blocks(request) and not takes_own_scales(request)


@law(
    "scales.bytes",
    KVPool,
    applies=has_blocks,
    needs=OWNED,
    check="round to nearest even; the scale's bias is 127 and it is rounded up; low nibble first",
)
def stored_bytes(bench: BlockRows) -> None:
    """Elements and scales are, byte for byte, what the scheme's definition makes of the rows."""
    for salt in range(3):
        k, v = _hard_rows(bench, "key", salt), _hard_rows(bench, "value", salt + 3)
        bench.write(torch.tensor([2, 1, 3]), k, v)
        for side, rows in zip(bench.sides, (k, v), strict=False):
            bench.expect_bytes(
                "set_kv_buffer(rows of many magnitudes)",
                side,
                {2: rows[0], 1: rows[1], 3: rows[2]},
            )


@law(
    "scales.saturates",
    KVPool,
    applies=has_blocks,
    needs=OWNED,
    check="clamp to the largest element before the cast, and the scale to its own largest",
)
def saturates(bench: BlockRows) -> None:
    """What neither element nor scale reaches is stored as the largest of both, with its sign."""
    k, v = bench.pair(2)
    for rows in (k, v):
        rows[0, :, 0], rows[0, :, 3] = float("inf"), float("-inf")
        rows[1, :, 1], rows[1, :, 2] = -3e38, 3e38
    bench.write(torch.tensor([1, 2]), k, v)
    for side, rows in zip(bench.sides, (k, v), strict=False):
        call = "set_kv_buffer(rows with infinities, and with 3e38)"
        bench.expect_bytes(call, side, {1: rows[0], 2: rows[1]})


@law(
    "scales.nan",
    KVPool,
    applies=has_blocks,
    needs=OWNED,
    check="keep NaN in the element, or where the format has none in the block's scale",
)
def nan(bench: BlockRows) -> None:
    """A NaN is read as NaN, and whatever lies outside its block as if it were not there."""
    k, v = bench.pair(1)
    given = k.clone(), v.clone()
    for rows in given:
        rows[0, 0, 5] = float("nan")
    bench.write(torch.tensor([1]), *given)
    for side, rows in zip(bench.sides, (k, v), strict=False):
        found = bench.stored(side)[1]
        call = "set_kv_buffer(a row with one NaN)"
        bench.expect(
            f"{call}: {side} element 5 is NaN", expected=True, got=bool(found[0, 5].isnan())
        )
        block = bench.codec.block
        rest, wanted = found.flatten()[block:], rows[0].float().flatten()[block:]
        bench.expect_same(call, rest[None], wanted[None], f"{side} elements after the block, row")


@law(
    "scales.given",
    ScaledWrite,
    KVPool,
    applies=takes_own_scales,
    needs=OWNED,
    check="store the scales that come with the rows; divide and clamp rows that are not yet e4m3fn",
)
def given(bench: BlockBench) -> None:
    """Rows that come with block scales are stored under those, and quantised ones as they are."""
    rows = {"key": bench.pair(2)[0] * 3, "value": bench.pair(2)[1] * 40}
    scales = {side: _some_scales(bench, side) for side in bench.sides}
    layer, loc = LayerStub(bench.layer_ids[0]), torch.tensor([1, 2])
    typed = [scales[side].view(torch.float8_e8m0fnu) for side in bench.sides]
    elements = {side: bench.codec.elements(rows[side], scales[side]) for side in bench.sides}
    stored = [elements[side].view(torch.float8_e4m3fn) for side in bench.sides]
    for what, written in (("bfloat16", list(rows.values())), ("float8_e4m3fn", stored)):
        bench.write(loc, torch.zeros_like(rows["key"]), torch.zeros_like(rows["value"]))
        bench.pool.set_kv_buffer(layer, loc, *written, *typed)
        for side in bench.sides:
            call = f"set_kv_buffer({what} rows, k_scale, v_scale)"
            got = bench.parts(side)
            bench.expect_same(call, got[1][1:3], scales[side], f"{side} scale bytes of row 1 +")
            bench.expect_same(call, got[0][1:3], elements[side], f"{side} element bytes of row 1 +")


@law(
    "scales.given-refused",
    ScaledWrite,
    KVPool,
    applies=takes_own_scales,
    needs=OWNED,
    check="compare the shape and type of the scales, and whether rows need any, before the write",
)
def given_refused(bench: BlockBench) -> None:
    """Scales of another shape or type, and quantised rows without any, raise and change nothing."""
    k, v = bench.pair(2)
    layer, loc = LayerStub(bench.layer_ids[0]), torch.tensor([1, 2])
    right = [_some_scales(bench, side).view(torch.float8_e8m0fnu) for side in bench.sides]
    calls = {
        "k_scale=1.0": (k, v, 1.0, right[1]),
        "k_scale of one row": (k, v, right[0][:1], right[1]),
        "v_scale of float32": (k, v, right[0], torch.ones(right[1].shape)),
        "e4m3fn rows without scales": (k.to(torch.float8_e4m3fn), v, None, None),
    }
    for what, arguments in calls.items():
        action = partial(bench.pool.set_kv_buffer, layer, loc, *arguments)
        bench.expect_raises(f"set_kv_buffer({what})", action, ValueError, TypeError)
        for side in bench.sides:
            bench.expect_rows(f"set_kv_buffer({what})", side, {})


@law(
    "scales.tensor",
    ScaledWrite,
    KVPool,
    applies=takes_a_tensor_scale,
    needs=OWNED,
    check="divide each side by its own scale, out of place, before block scales are taken",
)
def tensor_scale(bench: BlockBench) -> None:
    """A scale for the whole tensor divides its side first, however it is passed; bad ones raise."""
    k, v = bench.pair(2)
    layer, loc = LayerStub(bench.layer_ids[0]), torch.tensor([1, 2])
    before = k.clone(), v.clone()
    for k_scale, v_scale in ((0.5, 4.0), (torch.tensor(0.5), torch.tensor([4.0]))):
        bench.pool.set_kv_buffer(layer, loc, k, v, k_scale, v_scale)
        call = "set_kv_buffer(..., k_scale=0.5, v_scale=4.0)"
        bench.expect_bytes(call, "key", dict(zip((1, 2), k * 2, strict=True)))
        bench.expect_bytes(call, "value", dict(zip((1, 2), v / 4, strict=True)))
    same = torch.equal(k, before[0]) and torch.equal(v, before[1])
    bench.expect("the rows given with scales are as they were", expected=True, got=same)
    for scale in (0.0, -1.0, float("nan")):
        action = partial(bench.pool.set_kv_buffer, layer, loc, k, v, scale, 1.0)
        bench.expect_raises(f"set_kv_buffer(k_scale={scale})", action, ValueError)


@law(
    "scales.door",
    BlockScaled,
    KVPool,
    applies=has_blocks,
    needs=OWNED,
    check="the place of a token's scales: by slot, or [page, head, t % 32, t // 32]",
)
def door(bench: BlockBench) -> None:
    """The door shows a token's scales where the declared layout has them, and slot 0 holds none."""
    last = bench.slots - 1
    slots = [last, 1, last // 2 + 1]
    for layer_id in bench.layer_ids:
        pair = bench.pair(4, layer_id, layer_id)
        bench.write(torch.tensor([*slots, 0]), *pair, layer_id)
        for side, rows in zip(bench.sides, pair, strict=True):
            shown = scales_shown(bench, side, layer_id)
            call = f"get_kv_scale_buffer({layer_id}), {bench.scale_layout}"
            wanted = bench.codec.encode(rows[:3].float())[1]
            bench.expect_same(call, shown[slots], wanted, f"{side} scales, one of slots {slots},")
            bench.expect_same(
                call, shown[:1], torch.zeros_like(shown[:1]), f"{side} scales of slot"
            )
    for layer_id in bench.foreign_layer_ids:
        action = partial(bench.pool.get_kv_scale_buffer, layer_id)
        call = f"get_kv_scale_buffer({layer_id}) on layers {list(bench.layer_ids)}"
        bench.expect_raises(call, action, ValueError, IndexError, KeyError)


@law(
    "scales.waits",
    BlockScaled,
    KVPool,
    applies=has_blocks,
    needs=OWNED,
    check="wait in this door as in the others: scales arrive with their rows",
)
def waits(bench: BlockBench) -> None:
    """With a transfer counter registered, the scales' door waits for the layer it hands out."""
    waited: list[int] = []

    class Counter:
        def wait_until(self, threshold: int, /) -> None:
            waited.append(threshold)

    bench.pool.register_layer_transfer_counter(Counter())
    for layer_id in bench.layer_ids:
        waited.clear()
        bench.pool.get_kv_scale_buffer(layer_id)
        local = layer_id - bench.request.start_layer
        call = f"get_kv_scale_buffer({layer_id}) with a counter registered: waits"
        bench.expect(call, expected={local}, got=set(waited))


@law(
    "composite.scales",
    BlockScaled,
    Composite,
    when=lambda bench: bool(bench.layer_ids),
    needs=("composite.leaf-for",),
    check="give each layer's scales from its own leaf; list those of the side exported by page",
)
def of_leaves(bench: CompositeBench) -> None:
    """The scales of a layer are its leaf's, in every member, and the list is the full side's."""
    pool, ids = bench.pool, sorted(bench.layer_ids)
    held = len(pool.k_scale_buffer), len(pool.v_scale_buffer)
    bench.expect("len(k_scale_buffer), len(v_scale_buffer)", expected=(len(ids),) * 2, got=held)
    for index, layer_id in enumerate(ids):
        leaf, leaf_id = pool.leaf_for(layer_id)
        own = [scales.data_ptr() for scales in leaf.get_kv_scale_buffer(leaf_id)]
        shown = [scales.data_ptr() for scales in pool.get_kv_scale_buffer(layer_id)]
        bench.expect(f"get_kv_scale_buffer({layer_id})", expected=own, got=shown)
        listed = [pool.k_scale_buffer[index].data_ptr(), pool.v_scale_buffer[index].data_ptr()]
        bench.expect(f"k_scale_buffer[{index}], v_scale_buffer[{index}]", expected=own, got=listed)
    full = pool.full_kv_pool
    none: tuple[list[int], list[int], list[int]] = ([], [], [])
    wanted = full.get_kv_scale_buf_infos() if full.layer_num else none
    bench.expect("get_kv_scale_buf_infos()", expected=wanted, got=pool.get_kv_scale_buf_infos())


def scales_shown(bench: BlockBench, side: Side, layer_id: int) -> Tensor:
    """What the door shows as scale bytes by slot, `[slots, heads, blocks]`, by the kit's reckoning.

    :raises LawBroken: for a buffer that is not of the layout's size.
    """
    buffers: tuple[Tensor, Tensor] = bench.pool.get_kv_scale_buffer(layer_id)
    found = buffers[0 if side == "key" else 1].detach().clone().view(torch.uint8)
    heads, width = bench.row_shape(side, layer_id)
    blocks, slots, page = width // bench.codec.block, bench.slots, bench.request.page_size
    if found.numel() != slots * heads * blocks:
        raise LawBroken(
            f"get_kv_scale_buffer({layer_id})",
            expected=f"{slots} x {heads} x {blocks} {side} scales",
            got=f"shape {tuple(found.shape)}",
        )
    if bench.scale_layout != "interleaved":
        return found.view(slots, heads, blocks)
    paged = found.view(slots // page, heads, 32, page // 32, blocks)
    token = torch.arange(slots)
    return paged[token // page, :, token % page % 32, token % page // 32]


def _some_scales(bench: BlockBench, side: Side) -> Tensor:
    """Scale bytes for two rows, all near 1 and no two neighbours alike."""
    heads, width = bench.row_shape(side)
    count = torch.arange(2 * heads * (width // bench.codec.block))
    return (126 + count % 3).to(torch.uint8).view(2, heads, -1)


def _hard_rows(bench: BlockRows, side: Side, salt: int) -> Tensor:
    """Three bfloat16 rows: of many magnitudes, halfway between numbers, and just above a power."""
    heads, width = bench.row_shape(side)
    made = torch.Generator().manual_seed(bench.seed + salt)
    spread = 2.0 ** torch.randint(-4, 7, (heads, width), generator=made)
    wide = torch.randn(heads, width, generator=made) * spread
    halves = (torch.randint(-48, 49, (heads, width), generator=made)) / 8
    halves[:, :: bench.codec.block] = 6.0
    above = halves.clone()
    above[:, :: bench.codec.block] = -6.0625
    return torch.stack([wide, halves, above]).to(torch.bfloat16)
