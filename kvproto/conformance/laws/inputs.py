"""What callers pass beside the plain case: other dtypes, scales nobody needs, padded targets."""

from __future__ import annotations

import torch

from kvproto.protocols import HostCopyable, HybridComposite, KVPool, LayerOverrideWrite, ScaledWrite

from ..composite_bench import HybridBench
from ..kv_bench import KVBench, LayerStub, WriteLoc
from ..law import has_layers, law
from .leaf import OWNED

_ROWS = (*OWNED, "leaf.write-read")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@law(
    "leaf.input-dtypes",
    KVPool,
    applies=has_layers,
    needs=_ROWS,
    check="convert rows to the stored dtype; activations come in another one than the pool's",
)
def input_dtypes(bench: KVBench) -> None:
    """Rows of any float dtype are stored by value, whatever the pool's own dtype is."""
    k, v = bench.pair(1)
    for dtype in _FLOATS:
        bench.write(torch.tensor([1]), torch.zeros_like(k), torch.zeros_like(v))
        bench.write(torch.tensor([1]), k.to(dtype), v.to(dtype))
        for side, rows in zip(bench.sides, (k, v), strict=False):
            bench.expect_rows(f"set_kv_buffer(rows of {dtype})", side, {1: rows[0]})


@law(
    "write.scales-ignored",
    ScaledWrite,
    KVPool,
    applies=lambda r: has_layers(r) and r.quant_scheme == "none",
    needs=_ROWS,
    check="scales belong to quantised rows: do not divide rows that are stored as they are",
)
def scales_ignored(bench: KVBench) -> None:
    """A pool that stores rows as they are ignores the scales that come with a write."""
    k, v = bench.pair(1)
    bench.pool.set_kv_buffer(LayerStub(bench.layer_ids[0]), torch.tensor([1]), k, v, 0.5, 0.25)
    for side, rows in zip(bench.sides, (k, v), strict=False):
        bench.expect_rows("set_kv_buffer(k_scale=0.5, v_scale=0.25)", side, {1: rows[0]})


@law(
    "write.override-first",
    LayerOverrideWrite,
    KVPool,
    applies=lambda r: has_layers(r) and r.layer_num > 1,
    needs=("write.layer-override",),
    check="compare the override with None: `override or layer.layer_id` loses layer 0",
)
def override_first(bench: KVBench) -> None:
    """An override to the first layer counts, 0 included, beside a layer object of the last."""
    first, last = bench.layer_ids[0], bench.layer_ids[-1]
    k, v = bench.pair(1, layer_id=first)
    loc, layer = torch.tensor([1]), LayerStub(last)
    bench.pool.set_kv_buffer(layer, loc, k, v, layer_id_override=first)
    for layer_id in (first, last):
        for side, rows in zip(bench.sides, (k, v), strict=False):
            expected = {1: rows[0]} if layer_id == first else {}
            call = f"set_kv_buffer(layer {last}, ..., layer_id_override={first})"
            bench.expect_rows(call, side, expected, layer_id)


@law(
    "host-copy.padding",
    HostCopyable,
    KVPool,
    applies=has_layers,
    needs=("host-copy.round-trip",),
    hazardous=True,
    check="drop tokens whose target is 0 or below; do not index the buffer with them",
)
def host_copy_padding(bench: KVBench) -> None:
    """Of a copy, tokens that are restored to 0 or below are dropped, and no other row changes."""
    k, v = bench.pair(3)
    bench.write(torch.tensor([1, 2, 3]), k, v)
    copy = bench.pool.get_cpu_copy(torch.tensor([1, 2, 3]))
    to = 2 + max(2, bench.index_kpool)  # among those that share an index key it keeps its place
    bench.pool.load_cpu_copy(copy, torch.tensor([0, to, -1]))
    for side, rows in zip(bench.sides, (k, v), strict=False):
        call = f"load_cpu_copy(get_cpu_copy([1, 2, 3]), [0, {to}, -1])"
        bench.expect_rows(call, side, {1: rows[0], 2: rows[1], 3: rows[2], to: rows[1]})


@law(
    "hybrid.full-loc",
    HybridComposite,
    applies=has_layers,
    needs=_ROWS,
    check="take `full_loc` of the location object where it is set, and `loc` where it is not",
)
def full_loc(bench: HybridBench) -> None:
    """The attention leaf is written at the locations meant for it, where the object has some."""
    elsewhere, loc = torch.tensor([3, 4]), torch.tensor([1, 2])
    for layer_id in bench.layer_ids:
        k, v = bench.pair(2, layer_id=layer_id)
        location = WriteLoc(elsewhere, full_loc=loc)
        bench.pool.set_kv_buffer(LayerStub(layer_id), location, k, v)
        for side, rows in zip(bench.sides, (k, v), strict=False):
            call = "set_kv_buffer(WriteLoc(loc=[3, 4], full_loc=[1, 2]), ...)"
            bench.expect_rows(call, side, {1: rows[0], 2: rows[1]}, layer_id)
