"""Latent rows: written whole or in two parts, the same bytes; read back in two parts."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import KVPool, LatentRows, MLALatent

from ..broken import LawBroken
from ..kv_bench import LayerStub
from ..latent_bench import LatentBench, is_packed
from ..law import has_layers, law
from .leaf import INDEX_DTYPES, OWNED


@law(
    "mla.geometry",
    MLALatent,
    check="kv_cache_dim counts stored elements: both parts, and the bytes of packed scales",
)
def geometry(bench: LatentBench) -> None:
    """Widths are those asked for, and the row width counts packed scales."""
    pool, asked = bench.pool, bench.asked
    widths = (pool.kv_lora_rank, pool.qk_rope_head_dim, pool.kv_cache_dim)
    wanted = (asked.kv_lora_rank, asked.qk_rope_head_dim, bench.kv_cache_dim)
    bench.expect(
        "kv_lora_rank, qk_rope_head_dim, kv_cache_dim", expected=str(wanted), got=str(widths)
    )


@law(
    "mla.rows",
    LatentRows,
    check="one buffer a layer, local order, in the store dtype; the reserved page comes on top",
)
def rows(bench: LatentBench) -> None:
    """There is one buffer per owned layer, with a row of the reported width for every slot."""
    shape = (bench.slots, 1, bench.kv_cache_dim)
    wanted = [(shape, bench.pool.store_dtype)] * len(bench.layer_ids)
    got = [(tuple(buffer.shape), buffer.dtype) for buffer in bench.pool.kv_buffer]
    bench.expect("kv_buffer", expected=str(wanted), got=str(got))


@law(
    "mla.split-write",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="latent first, then rope, at the row of the location, in the layer's own buffer",
)
def split_write(bench: LatentBench) -> None:
    """Two parts are stored as one row, latent first, in their layer, and nothing else changes."""
    last = bench.slots - 1
    slots = [last, 1, last - 1]
    for layer_id in bench.layer_ids:
        latent, rope = bench.split(bench.latent_rows(3, salt=layer_id))
        for dtype in INDEX_DTYPES:
            bench.write_parts(torch.tensor(slots, dtype=dtype), latent, rope, layer_id)
    for layer_id in bench.layer_ids:
        written = bench.latent_rows(3, salt=layer_id)
        bench.expect_rows(
            f"set_mla_kv_buffer(layer {layer_id}, loc={slots}, ...)",
            "key",
            dict(zip(slots, written, strict=True)),
            layer_id,
        )


@law(
    "mla.split-same",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="one conversion for both writers: clamp before the cast, the same scale per block",
)
def split_same(bench: LatentBench) -> None:
    """A row stored in two parts is, byte for byte, the row stored whole, saturated alike."""
    written = bench.latent_rows(3).float()
    written[0] *= -0.3
    written[1, :, ::5], written[1, :, 1::5] = 1e6, float("-inf")
    written[2] *= 1e-3
    whole, parted = torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6])
    bench.write(whole, written, written[..., : bench.asked.kv_lora_rank])
    bench.write_parts(parted, *bench.split(written))
    stored = bench.oracle.stored_bytes("key", bench.layer_ids[0])
    bench.expect_same(
        "set_mla_kv_buffer(latent, rope) after set_kv_buffer([latent, rope])",
        stored[parted],
        stored[whole],
        "bytes of row",
    )


@law(
    "mla.split-guards",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="every writer of the pool needs the mask, not only set_kv_buffer",
)
def split_guards(bench: LatentBench) -> None:
    """Parts aimed at slot 0 or below are dropped, NaN and infinity included; so is no location."""
    written = bench.latent_rows(4)
    written[0], written[2], written[3] = float("nan"), float("inf"), float("nan")
    parts = bench.split(written)
    bench.write_parts(torch.empty(0, dtype=torch.int64), parts[0][:0], parts[1][:0])
    for locations in ([0, 3, 0, 0], [-1, 3, -bench.slots, 0], [-212, 3, -1, -1]):
        for dtype in INDEX_DTYPES:
            bench.write_parts(torch.tensor(locations, dtype=dtype), *parts)
            call = f"set_mla_kv_buffer(loc={locations} {dtype}, rows 0, 2 and 3 not finite)"
            bench.expect_rows(call, "key", {3: written[1]})


@law(
    "mla.split-refuses",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="check layer, widths and the largest location before the first row is written",
)
def split_refuses(bench: LatentBench) -> None:
    """Layers not owned, parts of other widths and locations past the end raise; nothing changes."""
    latent, rope = bench.split(bench.latent_rows(2))
    loc, past = torch.tensor([1, 2]), torch.tensor([1, bench.slots])
    write = bench.write_parts
    for layer_id in bench.foreign_layer_ids:
        call = f"set_mla_kv_buffer(layer {layer_id}) on layers {list(bench.layer_ids)}"
        errors = (ValueError, IndexError, KeyError)
        bench.expect_raises(call, partial(write, loc, latent, rope, layer_id), *errors)
    wide = torch.cat([rope, latent], dim=-1)
    bench.expect_raises(
        "set_mla_kv_buffer(rope that is wider)",
        partial(write, loc, latent, wide),
        ValueError,
        RuntimeError,
        IndexError,
    )
    if bench.in_host_memory:  # kernels of a device check no location
        bench.expect_raises(
            f"set_mla_kv_buffer(loc=[1, {bench.slots}], ...) on {bench.slots} rows",
            partial(write, past, latent, rope),
            IndexError,
            ValueError,
        )
    for layer_id in bench.layer_ids:
        bench.expect_rows("set_mla_kv_buffer, after it raised", "key", {}, layer_id)


@law(
    "mla.split-strided",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="the parts are slices of one projection: reshape instead of view, or pass strides",
)
def split_strided(bench: LatentBench) -> None:
    """Parts that are slices of one row, flat, transposed or expanded are stored like copies."""
    n = 4
    written = bench.latent_rows(n)
    latent, rope = bench.split(written)
    once = written[:1].expand(n, -1, -1)
    forms: dict[str, tuple[Tensor, Tensor, Tensor]] = {
        "slices of one row": (written, latent, rope),
        "slices without a head axis": (written, latent.squeeze(1), rope.squeeze(1)),
        "transposed": (written, _transposed(latent), _transposed(rope)),
        "one row expanded": (once, *bench.split(once)),
    }
    loc = torch.tensor([1, 9, 2, 9, 3, 9, 4, 9])[::2]
    for name, (whole, a, b) in forms.items():
        before = (loc.clone(), a.clone(), b.clone())
        bench.write_parts(loc, a, b)
        call = f"set_mla_kv_buffer(strided loc, {name})"
        bench.expect_rows(call, "key", {i + 1: whole[i].clone() for i in range(n)})
        for was, now in zip(before, (loc, a, b), strict=True):
            if not torch.equal(was, now):
                raise LawBroken(call, expected="inputs unchanged", got="another value")


def _transposed(rows: Tensor) -> Tensor:
    return rows.transpose(0, 2).contiguous().transpose(0, 2)


@law(
    "mla.split-read",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="mask by location, dequantise packed rows, and return copies in the dtype asked for",
)
def split_read(bench: LatentBench) -> None:
    """Parts are read in the dtype asked for, as fresh tensors; location 0 and below give zeros."""
    last, layer_id = bench.slots - 1, bench.layer_ids[-1]
    written = bench.latent_rows(2)
    bench.write_parts(torch.tensor([1, last]), *bench.split(written), layer_id)
    expected = torch.zeros(5, *written.shape[1:])
    expected[0], expected[3] = written[1].float(), written[0].float()
    layer, default = LayerStub(layer_id), torch.bfloat16 if bench.packed else bench.read_dtype
    for wanted in (None, torch.bfloat16, torch.float32):
        for dtype in INDEX_DTYPES:
            loc = torch.tensor([last, 0, -1, 1, -2], dtype=dtype)
            parts = bench.pool.get_mla_kv_buffer(layer, loc, dst_dtype=wanted)
            call = f"get_mla_kv_buffer(loc=[{last}, 0, -1, 1, -2] {dtype}, dst_dtype={wanted})"
            bench.expect(call, expected=[wanted or default] * 2, got=[part.dtype for part in parts])
            for part, whole in zip(parts, bench.split(expected), strict=True):
                bench.expect_same(call, part.float(), whole, "row")
                part.zero_()
    bench.expect_rows(
        "get_mla_kv_buffer(...), then zeros into what it returned",
        "key",
        {1: written[0], last: written[1]},
        layer_id,
    )


@law(
    "mla.value-is-prefix",
    LatentRows,
    applies=has_layers,
    needs=OWNED,
    check="a view of the key row's first kv_lora_rank elements; packed rows are shown as stored",
)
def value_is_prefix(bench: LatentBench) -> None:
    """The value buffer is the key buffer cut after the latent part: the same memory, or a copy."""
    for layer_id in bench.layer_ids:
        loc = torch.tensor([1])
        bench.write(loc, *bench.pair(1, salt=layer_id), layer_id)
        key, value = bench.pool.get_key_buffer(layer_id), bench.pool.get_value_buffer(layer_id)
        prefix = key[..., : bench.asked.kv_lora_rank]
        if bench.reads_copies:
            call = f"get_value_buffer({layer_id}) of a pool that declares copies"
            bench.expect_same(call, value.float(), prefix.float(), "value row")
            continue
        facts = [(tuple(x.shape), x.stride(), x.dtype, x.data_ptr()) for x in (value, prefix)]
        bench.expect(
            f"get_value_buffer({layer_id}): shape, strides, dtype, address",
            expected=facts[1],
            got=facts[0],
        )


@law(
    "mla.value-unused",
    LatentRows,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="the row is in cache_k alone: neither read cache_v nor ask its shape",
)
def value_unused(bench: LatentBench) -> None:
    """A whole row is stored from its key, and the value passed with it may be anything or None."""
    written = bench.latent_rows(1)
    for value in (None, torch.full((1, 1, bench.asked.kv_lora_rank), float("nan"))):
        layer = LayerStub(bench.layer_ids[0])
        bench.pool.set_kv_buffer(layer, torch.tensor([1]), written, value)
        bench.expect_rows("set_kv_buffer(row, cache_v None or NaN)", "key", {1: written[0]})


@law(
    "mla.packed-blocks",
    MLALatent,
    KVPool,
    applies=lambda request: has_layers(request) and is_packed(request),
    needs=OWNED,
    check="a float32 scale for each 128 latents, from that block's own largest magnitude",
)
def packed_blocks(bench: LatentBench) -> None:
    """Every 128 latents have a scale of their own, and are within half a step; rope is bf16."""
    generator = torch.Generator().manual_seed(bench.seed)
    rank, width = bench.asked.kv_lora_rank, bench.row_shape("key")[1]
    written = torch.randn(4, 1, width, generator=generator)
    written *= 10.0 ** torch.arange(width).div(128, rounding_mode="floor").remainder(3)
    written = written.to(torch.bfloat16)
    written[3, :, :128] = 0
    loc = torch.tensor([1, 2, 3, 4])
    bench.write_parts(loc, *bench.split(written))
    stored = bench.stored("key")[loc]
    bench.expect_same(
        "set_mla_kv_buffer: rope", stored[..., rank:], written[..., rank:].float(), "row"
    )
    blocks = written[..., :rank].float().reshape(4, -1, 128)
    scale = blocks.abs().amax(-1, keepdim=True) / 448
    wrong = (stored[..., :rank].reshape(4, -1, 128) - blocks).abs()
    # Half a step of e4m3: 1/16 of the number, and of the smallest step next to zero.
    allowed = torch.maximum(blocks.abs() / 16, scale * 2.0**-10) * 1.001
    if not torch.all(wrong <= allowed):
        at = (wrong - allowed).flatten().argmax()
        raise LawBroken(
            "set_mla_kv_buffer(latents of several magnitudes)",
            expected=f"{float(blocks.flatten()[at]):g} within {float(allowed.flatten()[at]):g}",
            got=f"off by {float(wrong.flatten()[at]):g}",
        )


@law(
    "mla.read-waits",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="get_mla_kv_buffer is a read door too: wait in it",
)
def read_waits(bench: LatentBench) -> None:
    """Reading parts waits for the layer's load, as every read door does."""
    loc, pool = torch.tensor([1]), bench.pool
    bench.expect_waits(
        "get_mla_kv_buffer", lambda i: pool.get_mla_kv_buffer(LayerStub(i), loc), bench.layer_ids
    )
