"""Drafts of which the device knows how many were accepted."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import KVPool, PrefixValidCommit, ScaledWrite

from ..kv_bench import KVBench, LayerStub
from ..law import has_layers, law
from .fp8 import is_fp8
from .leaf import INDEX_DTYPES, OWNED
from .sync_free import run_traced

_LENGTHS = ([0, 2], [3, 9], [1, -1])
"""None, some, all, more than there are, fewer than none."""


def _commit(
    bench: KVBench,
    loc: Tensor,
    lens: Tensor,
    rows: tuple[Tensor, Tensor],
    layer_id: int | None = None,
) -> None:
    layer = LayerStub(bench.layer_ids[0] if layer_id is None else layer_id)
    bench.pool.set_kv_buffer_prefix_valid(layer, loc, lens, *rows)


@law(
    "commit.prefix",
    PrefixValidCommit,
    KVPool,
    applies=has_layers,
    needs=(*OWNED, "leaf.write-read"),
    check="compare the draft's number in its own request with that request's length",
)
def prefix(bench: KVBench) -> None:
    """The first drafts of each request are stored, as many as its length; others change nothing."""
    places = [4, 1, 6, 2, 5, 3]
    slots = torch.tensor(places).view(2, 3)
    for layer_id in bench.layer_ids:
        held = bench.pair(6, salt=3, layer_id=layer_id)
        drafts = bench.pair(6, layer_id=layer_id)
        for lengths in _LENGTHS:
            kept = [d < length for length in lengths for d in range(3)]
            for dtype in INDEX_DTYPES:
                bench.write(slots.flatten(), *held, layer_id)
                given = tuple(rows.clone() for rows in drafts)
                for rows in given:
                    rows[~torch.tensor(kept)] = float("nan")
                lens = torch.tensor(lengths, dtype=dtype)
                _commit(bench, slots.to(dtype), lens, (given[0], given[1]), layer_id)
                for side, old, new in zip(bench.sides, held, drafts, strict=False):
                    stored = {s: (new if kept[i] else old)[i] for i, s in enumerate(places)}
                    call = f"set_kv_buffer_prefix_valid(commit_lens={lengths} {dtype}, 3 drafts)"
                    bench.expect_rows(call, side, stored, layer_id)


@law(
    "commit.guards",
    PrefixValidCommit,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="drop slots of 0 and below within the length, as every writer does",
)
def guards(bench: KVBench) -> None:
    """Accepted drafts aimed at slot 0 or below are dropped, NaN included, and never wrap."""
    places = [[0, 3, -1], [-bench.slots, 0, -212]]
    slots = torch.tensor(places)
    for dtype in INDEX_DTYPES:
        k, v = bench.pair(6)
        for rows in (k, v):
            rows[[0, 2, 3, 4, 5]] = float("nan")
        _commit(bench, slots.to(dtype), torch.tensor([3, 3]), (k, v))
        for side, rows in zip(bench.sides, (k, v), strict=False):
            call = f"set_kv_buffer_prefix_valid(loc_2d={places} {dtype}, [3, 3])"
            bench.expect_rows(call, side, {3: rows[1]})


@law(
    "commit.unread-slots",
    PrefixValidCommit,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="drop the slots past a length first, then check or translate those that are left",
)
def unread_slots(bench: KVBench) -> None:
    """Slots past a length are not looked at, whatever they are; one to be kept is checked."""
    k, v = bench.pair(3)
    places = [2, bench.slots, bench.slots + 500]
    past = torch.tensor([places])
    _commit(bench, past, torch.tensor([1]), (k, v))
    call = f"set_kv_buffer_prefix_valid([{places}], [1]) on {bench.slots} rows"
    for side, rows in zip(bench.sides, (k, v), strict=False):
        bench.expect_rows(call, side, {2: rows[0]})
    if not bench.in_host_memory:  # kernels of a device check no location
        return
    refused = f"set_kv_buffer_prefix_valid([{places}], [2]) on {bench.slots} rows"
    again = partial(_commit, bench, past, torch.tensor([2]), bench.pair(3, salt=2))
    bench.expect_raises(refused, again, IndexError, ValueError)
    for side, rows in zip(bench.sides, (k, v), strict=False):
        bench.expect_rows(refused, side, {2: rows[0]})


@law(
    "commit.inputs",
    PrefixValidCommit,
    KVPool,
    applies=has_layers,
    needs=(*OWNED, "commit.prefix"),
    check="pass strides to the kernel, or make slots, lengths and rows contiguous",
)
def inputs(bench: KVBench) -> None:
    """Strided slots, lengths and rows store like their copies; they are left as they were."""
    k, v = bench.pair(4)
    fused = torch.cat([k.flatten(1), v.flatten(1)], dim=1)
    width = k[0].numel()
    rows = fused[:, :width].view(k.shape), fused[:, width:].view(v.shape)
    slots = torch.tensor([[1, 3], [2, 4]]).t()
    lens = torch.tensor([2, 9, 1, 9])[::2]
    before = fused.clone()
    for _ in range(2):
        _commit(bench, slots, lens, rows)
    call = "set_kv_buffer_prefix_valid(strided slots, lengths and rows)"
    for side, wanted in zip(bench.sides, (k, v), strict=False):
        bench.expect_rows(call, side, {1: wanted[0], 2: wanted[1], 3: wanted[2]})
    same = torch.equal(slots, torch.tensor([[1, 2], [3, 4]])) and torch.equal(fused, before)
    bench.expect(f"{call}: its arguments are as they were", expected=True, got=same)
    empty = torch.empty(0, 2, dtype=torch.int64)
    _commit(bench, empty, empty[:, 0], (k[:0], v[:0]))


@law(
    "commit.refuses",
    PrefixValidCommit,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="compare the shapes of slots, lengths and rows, and the layer, before the first row",
)
def refuses(bench: KVBench) -> None:
    """Slots, lengths and rows of other numbers, and foreign layers, raise and change nothing."""
    slots, lens, (k, v) = torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1]), bench.pair(4)
    wrong = {
        "slots of rank 1": (slots.flatten(), torch.ones(4, dtype=torch.int64), (k, v)),
        "three lengths for two requests": (slots, torch.tensor([1, 1, 1]), (k, v)),
        "three rows for four slots": (slots, lens, (k[:3], v[:3])),
    }
    for what, (where, lengths, rows) in wrong.items():
        call = f"set_kv_buffer_prefix_valid({what})"
        action = partial(_commit, bench, where, lengths, rows)
        bench.expect_raises(call, action, ValueError, IndexError, RuntimeError)
    for layer_id in bench.foreign_layer_ids:
        call = f"set_kv_buffer_prefix_valid(layer {layer_id}) on layers {list(bench.layer_ids)}"
        action = partial(_commit, bench, slots, lens, (k, v), layer_id)
        bench.expect_raises(call, action, ValueError, IndexError, KeyError)
    for layer_id in bench.layer_ids:
        for side in bench.sides:
            bench.expect_rows("set_kv_buffer_prefix_valid, after it raised", side, {}, layer_id)


@law(
    "commit.scales",
    PrefixValidCommit,
    ScaledWrite,
    KVPool,
    applies=is_fp8,
    needs=(*OWNED, "fp8.scales"),
    check="the write door's scales, passed on: each side by its own, out of place",
)
def scales(bench: KVBench) -> None:
    """Accepted drafts are divided by the scale of their side, as in a plain write."""
    k, v = (torch.full_like(rows, 3.0) for rows in bench.pair(2))
    layer = LayerStub(bench.layer_ids[0])
    slots, lens = torch.tensor([[1, 2]]), torch.tensor([1])
    bench.pool.set_kv_buffer_prefix_valid(layer, slots, lens, k, v, 0.5, torch.tensor(0.25))
    call = "set_kv_buffer_prefix_valid(3.0, 3.0, k_scale=0.5, v_scale=0.25)"
    bench.expect_rows(call, "key", {1: torch.full_like(k[0], 6.0)})
    bench.expect_rows(call, "value", {1: torch.full_like(v[0], 12.0)})
    bench.expect(
        f"{call}: the rows given", expected=(3.0, 3.0), got=(float(k.max()), float(v.min()))
    )


@law(
    "sync-free.commit",
    PrefixValidCommit,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="mask by where: nonzero() over the lengths has a shape that the device decides",
)
def sync_free(bench: KVBench) -> None:
    """A commit runs no operation whose shape or control flow depends on lengths or slots."""
    slots, lens, rows = torch.tensor([[1, 2], [0, -1]]), torch.tensor([1, 2]), bench.pair(4)
    call = "set_kv_buffer_prefix_valid([[1, 2], [0, -1]], [1, 2], ...)"
    run_traced(call, lambda: _commit(bench, slots, lens, rows))
