"""Options of the write door that only some pools serve, and geometry that only some have."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import DCPMaskedWrite, KVPool, LayerOverrideWrite, MHARows

from ..broken import LawBroken
from ..kv_bench import KVBench, LayerStub, has_heads
from ..law import has_layers, law
from .leaf import OWNED
from .sync_free import run_traced


@law(
    "write.layer-override",
    LayerOverrideWrite,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="look at layer_id_override first: composites pass layer=None with it",
)
def layer_override(bench: KVBench) -> None:
    """The override names the layer that is written, whatever the layer object says."""
    loc, last = torch.tensor([1]), bench.layer_ids[-1]
    k, v = bench.pair(1, layer_id=last)
    for layer in (None, LayerStub(bench.layer_ids[0])):
        bench.pool.set_kv_buffer(layer, loc, k, v, layer_id_override=last)
    for layer_id in bench.layer_ids:
        for side, rows in zip(bench.sides, (k, v), strict=False):
            bench.expect_rows(
                f"set_kv_buffer(..., layer_id_override={last})",
                side,
                {1: rows[0]} if layer_id == last else {},
                layer_id,
            )


@law(
    "write.dcp-mask",
    DCPMaskedWrite,
    KVPool,
    applies=has_layers,
    needs=(*OWNED, "leaf.write-read"),
    check="send masked rows to slot 0, which drops them; do not select rows by the mask",
)
def dcp_mask(bench: KVBench) -> None:
    """Rows whose mask is False are dropped, in fixed shapes; without a mask all are stored."""
    loc, mask = torch.tensor([1, 2, 3]), torch.tensor([True, False, True])
    for salt, given in enumerate((None, mask)):
        for layer_id in bench.layer_ids:
            k, v = bench.pair(3, salt, layer_id)
            layer = LayerStub(layer_id)
            write = partial(bench.pool.set_kv_buffer, layer, loc, k, v, dcp_kv_mask=given)
            run_traced(f"set_kv_buffer(..., dcp_kv_mask={given})", write)
    for layer_id in bench.layer_ids:
        first, last = (bench.pair(3, salt, layer_id) for salt in (0, 1))
        for side, old, new in zip(bench.sides, first, last, strict=False):
            call = "set_kv_buffer(loc=[1, 2, 3]), then with dcp_kv_mask=[True, False, True]"
            bench.expect_rows(call, side, {1: new[0], 2: old[1], 3: new[2]}, layer_id)


@law(
    "mha.geometry",
    MHARows,
    applies=has_heads,
    check="v_head_dim None is head_dim; answer without naming a layer, layer 0 may not be there",
)
def mha_geometry(bench: KVBench) -> None:
    """Heads and widths are those asked for, keys and values apart, without naming a layer."""
    heads, width = bench.row_shape("key")
    value_width = bench.row_shape("value")[1]
    pool = bench.pool
    got = (pool.head_num, pool.head_dim, pool.v_head_dim, pool.get_v_head_dim())
    expected = (heads, width, value_width, value_width)
    if got != expected:
        raise LawBroken(
            "head_num, head_dim, v_head_dim, get_v_head_dim()",
            expected=str(expected),
            got=str(got),
        )
    buffers = (len(pool.k_buffer), len(pool.v_buffer))
    if buffers != (len(bench.layer_ids),) * 2:
        raise LawBroken(
            "len(k_buffer), len(v_buffer)",
            expected=f"{len(bench.layer_ids)} each",
            got=str(buffers),
        )
