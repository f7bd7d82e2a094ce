"""What a pool says of its storage in a word: where it is, of which element, how much."""

from __future__ import annotations

from operator import index
from typing import Any, cast

import torch

from kvproto.protocols import (
    HiSparseAllocator,
    KVLeaf,
    KVPool,
    LatentRows,
    MHARows,
    SizeReporting,
    SlotAllocator,
    supports,
)

from ..account_bench import AllocBench
from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from .leaf import OWNED

_GIB = 1 << 30
_ROW_BUFFERS = ((MHARows, ("k_buffer", "v_buffer")), (LatentRows, ("kv_buffer",)))
_ONE_ELEMENT = ("none", "fp8_scaled", "dsa_fp8_packed")


@law(
    "leaf.device",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="report the device of the buffers; a name may leave the index out",
)
def device(bench: KVBench) -> None:
    """The declared device, or its name, is where the tensors behind the read doors are."""
    where = bench.pool.get_key_buffer(bench.layer_ids[0]).device
    told = torch.device(bench.pool.device)
    if told.type != where.type or told.index not in (None, where.index):
        raise LawBroken("pool.device", expected=str(where), got=str(bench.pool.device))


@law(
    "leaf.store-dtype",
    KVLeaf,
    applies=lambda r: has_layers(r) and r.quant_scheme in _ONE_ELEMENT,
    check="fp8 is kept as bytes, uint8; read doors reinterpret them in the pool's dtype",
)
def store_dtype(bench: KVBench) -> None:
    """Rows are kept in the declared store dtype: bytes for fp8, else the pool's own dtype."""
    dtype = bench.request.dtype
    fp8 = dtype.is_floating_point and dtype.itemsize == 1
    expected = torch.uint8 if fp8 else dtype
    bench.expect("pool.store_dtype", expected=expected, got=bench.pool.store_dtype)
    for rows, names in _ROW_BUFFERS:
        if supports(bench.pool, rows):
            for name in names:
                got = {buffer.dtype for buffer in getattr(bench.pool, name)}
                bench.expect(f"dtype of {name}", expected={expected}, got=got)


@law(
    "size.mem-usage",
    SizeReporting,
    KVPool,
    check="GiB, 2**30 bytes, of what get_kv_size_bytes counts",
)
def mem_usage(bench: KVBench) -> None:
    """The reported memory is the reported bytes in GiB."""
    told = size_parts(bench.pool.get_kv_size_bytes())
    gib = bench.pool.mem_usage
    if abs(gib * _GIB - sum(told)) > 1:
        raise LawBroken("mem_usage", expected=f"{sum(told) / _GIB:g} GiB", got=f"{gib:g}")


@law(
    "alloc.size",
    SlotAllocator,
    check="size counts what can be owned at once, without the reserved page; of a pair, by both",
)
def alloc_size(bench: AllocBench) -> None:
    """As built all of `size` is available, of two spaces the smaller one."""
    pool = bench.pool
    logical = supports(pool, HiSparseAllocator)  # ids may be owned without a device slot
    bench.expect(
        "size, page_size, available_size()",
        expected=(
            len(bench.lendable) if logical else bench.usable,
            bench.page_size,
            bench.usable,
        ),
        got=(pool.size, pool.page_size, pool.available_size()),
    )


def size_parts(reported: Any) -> tuple[int, ...]:
    """Key and value bytes, or the one number of rows that are both."""
    parts = cast("tuple[int, ...]", reported if isinstance(reported, tuple) else (reported,))
    return tuple(map(index, parts))
