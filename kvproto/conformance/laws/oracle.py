"""The kit's own eyes: bytes changed at declared addresses are what the read doors then show."""

from __future__ import annotations

import struct
from itertools import product

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, DeclaresRegions, IndexerCapable, KVLeaf, MLALatent

from ..block_bench import BlockBench, BlockRows
from ..block_codec import is_block_scaled
from ..broken import LawBroken
from ..kv_bench import KVBench, LayerStub, Side
from ..latent_bench import LatentBench, has_index_keys, is_packed
from ..law import has_layers, law
from ..oracle import poke
from .leaf import OWNED
from .scales import scales_shown

_CHECK = "declare the address of page 0 of each layer, and each field's own offset and strides"


@law(
    "oracle.rows",
    DeclaresRegions,
    KVLeaf,
    applies=lambda request: (
        not (is_packed(request) or is_block_scaled(request)) and has_layers(request)
    ),
    needs=OWNED,
    check=_CHECK,
)
def rows(bench: KVBench) -> None:
    """An element changed at its declared address is that element of the read door's row."""
    values: dict[Side, Tensor] = {
        side: bench.rows(side, 1)[0].to(bench.request.dtype) for side in bench.sides
    }
    for layer_id in bench.layer_ids:
        for slot in (1, bench.slots - 1):
            for side, row in values.items():
                _poke_row(bench, side, layer_id, slot, row)
            for side in bench.shown_sides:
                row = bench.shown_row(side, values)
                read = bench.pool.get_key_buffer if side == "key" else bench.pool.get_value_buffer
                call = f"bytes put where the regions have {side} row {slot} of layer {layer_id}"
                form = bench.door_form(side, layer_id)
                if form is not None:
                    got = form.row(call, read(layer_id), slot).float()
                    bench.expect_same(call, got.unsqueeze(0), row.float().unsqueeze(0), "row")


@law(
    "oracle.packed",
    DeclaresRegions,
    MLALatent,
    applies=lambda request: has_layers(request) and is_packed(request),
    needs=OWNED,
    check=_CHECK,
)
def packed(bench: LatentBench) -> None:
    """A packed row put together from its declared fields is read as latents times their scales."""
    layer_id, slot = bench.layer_ids[-1], bench.slots - 2
    region = _region(bench, "latent", layer_id)
    page, token = divmod(slot, region.page_size)
    rank, rope = bench.asked.kv_lora_rank, bench.asked.qk_rope_head_dim
    latent, tail = torch.ones(rank), torch.arange(rope).float().to(torch.bfloat16)
    for i in range(rank):
        poke(region.address(layer_id, page, token, i, field="latent"), b"\x38")  # 1.0
    for group in range(rank // 128):
        latent[128 * group : 128 * (group + 1)] = 2.0 + group
        at = region.address(layer_id, page, token, group, field="scale")
        poke(at, struct.pack("=f", 2.0 + group))
    for i in range(rope):
        poke(region.address(layer_id, page, token, i, field="rope"), _raw(tail[i]))
    read = bench.pool.get_mla_kv_buffer
    parts = read(LayerStub(layer_id), torch.tensor([slot]), dst_dtype=torch.float32)
    call = f"get_mla_kv_buffer([{slot}]) of bytes put where the regions have its fields"
    for part, expected in zip(parts, (latent, tail.float()), strict=True):
        bench.expect_same(call, part.flatten(1), expected.unsqueeze(0), "row")


@law(
    "oracle.blocks",
    DeclaresRegions,
    KVLeaf,
    applies=lambda request: is_block_scaled(request) and has_layers(request),
    needs=OWNED,
    check=_CHECK,
)
def blocks(bench: BlockRows) -> None:
    """Elements and scales put at their declared addresses are what the read doors then show."""
    for layer_id in bench.layer_ids:
        for slot in (1, bench.slots - 1):
            for side in bench.sides:
                row = bench.rows(side, 1, layer_id + slot, layer_id)
                _poke_blocks(bench, side, layer_id, slot, row)
                call = f"bytes put where the regions have {side} row {slot} of layer {layer_id}"
                read = bench.pool.get_key_buffer if side == "key" else bench.pool.get_value_buffer
                shown = read(layer_id)[slot : slot + 1].float()
                if isinstance(bench, BlockBench) and not bench.codec.four_bits:
                    scales = scales_shown(bench, side, layer_id)[slot : slot + 1]
                    by = bench.codec.scale_meaning(scales).repeat_interleave(bench.codec.block, -1)
                    shown = (shown * by).float()
                bench.expect_same(call, shown, row, "row")


@law(
    "oracle.index",
    DeclaresRegions,
    IndexerCapable,
    applies=has_index_keys,
    needs=OWNED,
    check=_CHECK,
)
def index(bench: LatentBench) -> None:
    """An index key and a scale put at their declared addresses are gathered from their page."""
    layer_id, page = bench.index_layers[-1], bench.index_page_size
    region = _region(bench, "index_key", layer_id)
    for token in {0, page - 1}:
        for i in range(bench.index_head_dim):
            poke(region.address(layer_id, 2, token, i, field="index_key"), bytes([i + 1]))
        poke(region.address(layer_id, 2, token, field="scale"), struct.pack("=f", 3.0 + token))
        keys, scales = bench.pool.get_index_k_scale_buffer(
            layer_id, torch.tensor([page]), torch.tensor([[2]]), page, page
        )
        call = f"get_index_k_scale_buffer: key {token} of page 2, put where the regions have it"
        wanted = torch.arange(1, bench.index_head_dim + 1, dtype=torch.uint8).unsqueeze(0)
        bench.expect_same(call, keys[token : token + 1].view(torch.uint8), wanted, "key")
        got = float(scales[token].view(torch.float32))
        bench.expect(call, expected=3.0 + token, got=got)


def _poke_row(bench: KVBench, side: Side, layer_id: int, slot: int, row: Tensor) -> None:
    if isinstance(bench, LatentBench):
        for name, part in zip(("latent", "rope"), bench.split(row[0]), strict=True):
            for i in range(part.shape[0]):
                region = _region(bench, name, layer_id)
                page, token = divmod(slot, region.page_size)
                poke(region.address(layer_id, page, token, i, field=name), _raw(part[i]))
        return
    region = _region(bench, side, layer_id)
    page, token = divmod(slot, region.page_size)
    for head in range(row.shape[0]):
        for i in range(row.shape[1]):
            poke(region.address(layer_id, page, token, head, i, field=side), _raw(row[head, i]))


def _poke_blocks(bench: BlockRows, side: Side, layer_id: int, slot: int, row: Tensor) -> None:
    elements, scales = bench.codec.encode(row)
    latent = isinstance(bench, LatentBench)
    region = _region(bench, "latent" if latent else side, layer_id)
    page, token = divmod(slot, region.page_size)
    left = _numbers(elements[0])
    for field in region.fields:
        for index in product(*(range(size) for size in field.shape[1:])):
            at = region.address(layer_id, page, token, *index, field=field.name)
            poke(at, bytes([left.pop(0)]))
    beside = _region(bench, "scale" if latent else f"{side}_scale", layer_id)
    flat = _numbers(scales[0])
    for index in product(*(range(size) for size in beside.fields[0].shape[1:])):
        poke(beside.address(layer_id, page, token, *index), bytes([flat.pop(0)]))


def _numbers(stored: Tensor) -> list[int]:
    return [int(byte) for byte in stored.flatten()]


def _region(bench: KVBench, name: str, layer_id: int) -> BufferRegion:
    regions: tuple[BufferRegion, ...] = bench.pool.buffer_regions()
    for region in regions:
        if layer_id in region.layer_ids and any(field.name == name for field in region.fields):
            return region
    raise LawBroken(
        "buffer_regions()", expected=f"a region of {name} rows of layer {layer_id}", got="none"
    )


def _raw(element: Tensor) -> bytes:
    return bytes(element.reshape(1).view(torch.uint8).cpu().numpy())
