"""Caches in blocks: rows in by slot, rows out by block table."""

from __future__ import annotations

import torch
from torch import Tensor

from .documented import Arguments

__all__ = ["_npu_reshape_and_cache", "npu_gather_pa_kv_cache", "npu_scatter_pa_kv_cache"]

_DTYPES = (torch.float16, torch.bfloat16, torch.int8)
"""On A2 and A3."""

_NZ_BYTES = 32
"""In NZ the innermost axis, and so the width of a head, is of whole 32 bytes."""


def npu_scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:
    """Rows `[n, heads, width]` to slots; those below 0 are skipped.

    Caches are `[blocks, block_size, heads, width]` in "Norm" (or None), and in "PA_NZ", the
    default, `[blocks, heads * width // c, block_size, c]` with `c` elements in 32 bytes.
    Compression is not emulated.
    """
    operator = "npu_scatter_pa_kv_cache"
    given = Arguments(
        operator,
        key=key,
        value=value,
        key_cache=key_cache,
        value_cache=value_cache,
        slot_mapping=slot_mapping,
    )
    for name, tensor in {
        "compress_lens": compress_lens,
        "compress_seq_offsets": compress_seq_offsets,
        "seq_lens": seq_lens,
    }.items():
        given.demand(tensor is None, name, "given", "compression, which is not emulated")
    modes = "'Norm', None or 'PA_NZ', the default"
    given.demand(cache_mode in ("Norm", None, "PA_NZ"), "cache_mode", repr(cache_mode), modes)
    given.dtypes(["slot_mapping"], (torch.int32, torch.int64))
    given.contiguous("key", "value", "key_cache", "value_cache", "slot_mapping")
    _store(given, "slot_mapping", in_tiles=cache_mode == "PA_NZ")


def _npu_reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor
) -> None:
    """Rows `[n, heads, width]` to int32 slots of `[blocks, block_size, heads, width]`.

    Slots below 0 are skipped, as the vendor's own test of the operator has it.
    """
    given = Arguments(
        "_npu_reshape_and_cache",
        key=key,
        value=value,
        key_cache=key_cache,
        value_cache=value_cache,
        slot_indices=slot_indices,
    )
    given.dtypes(["slot_indices"], (torch.int32,))
    given.contiguous("key_cache", "value_cache")
    _store(given, "slot_indices", in_tiles=False)


def npu_gather_pa_kv_cache(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    seq_offset: Tensor | None = None,
    is_seq_lens_cumsum: bool = False,
) -> None:
    """The rows of sequences, one after another, into `key` and `value` `[n, heads, width]`.

    `seq_lens` has a length for each sequence, or from 0 on their running sum. The first block of
    sequence `i` is `block_tables[i, seq_offset[i] // block_size]`. The schema has no cache mode:
    caches are ND.
    """
    caches = {"key_cache": key_cache, "value_cache": value_cache, "key": key, "value": value}
    tables = {"block_tables": block_tables, "seq_lens": seq_lens, "seq_offset": seq_offset}
    given = Arguments("npu_gather_pa_kv_cache", **caches, **tables)
    given.ranks(key_cache=4, value_cache=4, key=3, value=3, block_tables=2, seq_lens=1)
    given.dtypes(list(caches), _DTYPES)
    given.dtypes([name for name in tables if name in given.tensors], (torch.int32,))
    given.contiguous(*given.tensors)
    given.filled(*given.tensors)
    blocks, block_size = key_cache.shape[:2]
    given.within("block_tables", block_tables, 0, blocks)
    lengths = _lengths(given, seq_lens, is_seq_lens_cumsum)
    given.shape("key", (sum(lengths), *key_cache.shape[2:]), "a row for each token of seq_lens")
    given.shape("value", (sum(lengths), *value_cache.shape[2:]), "a row for each token of seq_lens")
    starts = [0] * len(lengths) if seq_offset is None else (seq_offset // block_size).tolist()
    slots = [
        _slots(given, block_tables[i, start:], length, block_size)
        for i, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]
    for cache, out in ((key_cache, key), (value_cache, value)):
        out.copy_(cache.flatten(0, 1)[torch.cat(slots)])


def _lengths(given: Arguments, seq_lens: Tensor, running: bool) -> list[int]:
    sequences = given.tensors["block_tables"].shape[0]
    given.shape("seq_lens", (sequences + running,), "a length for each sequence")
    if not running:
        return [int(one) for one in seq_lens]
    given.demand(int(seq_lens[0]) == 0, "seq_lens[0]", int(seq_lens[0]), "0 in a running sum")
    return [int(one) for one in seq_lens.diff()]


def _slots(given: Arguments, table: Tensor, length: int, block_size: int) -> Tensor:
    needed = -(-length // block_size)
    found = f"of {table.shape[0]} blocks after seq_offset"
    given.demand(needed <= table.shape[0], "block_tables", found, f"{needed} for {length} tokens")
    within = torch.arange(block_size, device=table.device)
    return (table.to(torch.int64)[:needed, None] * block_size + within).flatten()[:length]


def _store(given: Arguments, slots_name: str, *, in_tiles: bool) -> None:
    """What both writers check and do."""
    key, value = given.tensors["key"], given.tensors["value"]
    slots = given.tensors[slots_name].to(torch.int64)
    given.ranks(key=3, value=3, key_cache=4, value_cache=4)
    given.dtypes(["key", "value", "key_cache", "value_cache"], _DTYPES)
    given.shape(slots_name, key.shape[:1], "a slot for each row of key")
    given.demand(
        value.shape[0] == key.shape[0], "value.shape[0]", value.shape[0], "the rows of key"
    )
    reach = _tiled if in_tiles else _plain
    pairs = [reach(given, "key", "key_cache"), reach(given, "value", "value_cache")]
    for into, _ in pairs:
        given.within(slots_name, slots, None, into.shape[0] * into.shape[1])
    kept = slots >= 0
    for into, rows in pairs:
        block_size = into.shape[1]
        into[slots[kept] // block_size, slots[kept] % block_size] = rows[kept]


def _plain(given: Arguments, rows: str, cache: str) -> tuple[Tensor, Tensor]:
    """The cache by block and slot in it, and the rows as they lie there."""
    tensor, into = given.tensors[rows], given.tensors[cache]
    why = "[blocks, block_size, heads, width] in ND"
    given.shape(cache, (*into.shape[:2], *tensor.shape[1:]), why)
    return into, tensor


def _tiled(given: Arguments, rows: str, cache: str) -> tuple[Tensor, Tensor]:
    """As `_plain`, where a row is in tiles of `c` elements, one in each of a block's columns."""
    tensor, into = given.tensors[rows], given.tensors[cache]
    width = tensor.shape[2] * tensor.itemsize
    whole = width % _NZ_BYTES == 0
    given.demand(whole, f"the width of {rows}", f"{width} bytes", "whole 32 bytes in NZ")
    c = _NZ_BYTES // tensor.itemsize
    tiles = tensor.shape[1] * tensor.shape[2] // c
    why = f"[blocks, heads * width // c, block_size, c] in NZ, c = {c} of {tensor.dtype}"
    given.shape(cache, (into.shape[0], tiles, into.shape[2], c), why)
    return into.transpose(1, 2), tensor.reshape(-1, tiles, c)
