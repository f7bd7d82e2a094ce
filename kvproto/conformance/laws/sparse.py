"""Index rows beside main rows: which layers have some, and that writers keep the two apart."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import KVLeaf, SparseIndexed, supports

from ..broken import LawBroken
from ..kv_bench import LayerStub, WriteLoc
from ..law import law
from ..sparse_bench import SparseIndexBench, has_index_rows
from .leaf import INDEX_DTYPES, OWNED
from .sync_free import run_traced

_LAYERS = (*OWNED, "sparse.layers")
_FUSED = "set_fused_kv_index_buffer"
_NONE = (ValueError, IndexError, KeyError)


@law(
    "sparse.layers",
    SparseIndexed,
    needs=OWNED,
    check="look the global id up among the sparse layers; a pool without layers is None",
)
def layers(bench: SparseIndexBench) -> None:
    """Sparse layers have index rows of their own, in the pool of their kind; others raise."""
    pool, request = bench.pool, bench.request
    both = request.index_value_layer_ids
    alone = [i for i in request.index_layer_ids if i not in both]
    held = (pool.index_k_pool is not None, pool.index_kv_pool is not None)
    bench.expect("index_k_pool, index_kv_pool there", expected=(bool(alone), bool(both)), got=held)
    bench.expect("main_pool is a leaf", expected=True, got=supports(pool.main_pool, KVLeaf))
    pointers: set[int] = set()
    for layer_id in request.index_layer_ids:
        keys: Tensor = pool.get_index_k_buffer(layer_id)
        shape = (bench.slots, 1, request.idx_head_dim)
        got = (tuple(keys.shape), keys.dtype)
        call = f"get_index_k_buffer({layer_id}): shape and dtype"
        bench.expect(call, expected=(shape, request.stored_index_dtype), got=got)
        pointers.add(keys.data_ptr())
    if len(pointers) != len(request.index_layer_ids):
        raise LawBroken("get_index_k_buffer", expected="one buffer a layer", got="shared ones")
    for layer_id in (*bench.dense_layer_ids, *bench.foreign_layer_ids):
        call = f"get_index_k_buffer({layer_id}), which is not sparse here"
        bench.expect_raises(call, partial(pool.get_index_k_buffer, layer_id), *_NONE)


@law(
    "sparse.fused",
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    check="main and index rows of the same layer: each pool counts its layers in its own way",
)
def fused(bench: SparseIndexBench) -> None:
    """A fused write stores main and index rows at their slots of their layer, and nothing else."""
    last = bench.slots - 1
    slots = [last, 1, last - 1]
    wanted = bench.everything()
    for salt, dtype in enumerate(INDEX_DTYPES):
        for layer_id in bench.request.index_layer_ids:
            given = bench.write_fused(torch.tensor(slots, dtype=dtype), layer_id, salt + layer_id)
            for side, rows in given.items():
                wanted[side, layer_id][slots] = rows.float()
            bench.expect_everything(f"{_FUSED}(layer {layer_id}, {slots} {dtype})", wanted)


@law(
    "sparse.index-keys",
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    check="layers with index values are written with them; keys alone are for the other ones",
)
def index_keys(bench: SparseIndexBench) -> None:
    """Index keys alone are stored in a layer without index values; other layers raise."""
    wanted, loc = bench.everything(), torch.tensor([2, 1, 0, -1])
    keys, _ = bench.index_rows(4, 1)
    for layer_id in (*bench.layer_ids, *bench.foreign_layer_ids):
        call = f"set_index_k_buffer(layer {layer_id}, [2, 1, 0, -1], ...)"
        write = partial(bench.pool.set_index_k_buffer, LayerStub(layer_id), loc, keys)
        if bench.index_sides(layer_id) == ("index_key",):
            write()
            wanted["index_key", layer_id][[2, 1]] = keys[:2].float()
        else:
            bench.expect_raises(call, write, *_NONE)
        bench.expect_everything(call, wanted)


@law(
    "sparse.guards",
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    hazardous=True,
    check="mask slots of 0 and below for index rows as for main rows",
)
def guards(bench: SparseIndexBench) -> None:
    """Rows aimed at slot 0 or below are dropped on every side, NaN included, and never wrap."""
    for places in ([0, 3, 0, 0], [-1, 3, -bench.slots, 0], [-212, 3, -64, -1]):
        for dtype in INDEX_DTYPES:
            for layer_id in bench.request.index_layer_ids:
                given = _given(bench, 4, layer_id)
                for rows in given.values():
                    rows[[0, 2, 3]] = float("nan")
                values = _values(bench, layer_id, given)
                bench.call_fused(torch.tensor(places, dtype=dtype), layer_id, given, values)
                for side in (*bench.sides, *bench.index_sides(layer_id)):
                    call = f"{_FUSED}(loc={places} {dtype}, ...)"
                    bench.expect_side(call, side, {3: given[side][1]}, layer_id)


@law(
    "sparse.refuses",
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    hazardous=True,
    check="check the layer, all shapes and the largest slot before the first row of any side",
)
def refuses(bench: SparseIndexBench) -> None:
    """Rows of another width, missing or needless index values, foreign layers: nothing changes."""
    wanted, loc = bench.everything(), torch.tensor([1, 2])
    layer_id = bench.request.index_layer_ids[-1]
    given = _given(bench, 2, layer_id)
    values = _values(bench, layer_id, given)
    other = given["index_value"] if values is None else None
    past = torch.tensor([1, bench.slots])
    calls = {
        f"index values {'given to' if values is None else 'missing for'} layer {layer_id}": (
            partial(bench.call_fused, loc, layer_id, given, other)
        ),
    }
    if bench.in_host_memory:  # kernels of a device check no location
        calls[f"loc [1, {bench.slots}] on {bench.slots} slots"] = partial(
            bench.call_fused, past, layer_id, given, values
        )
    for side in ("key", "value", "index_key"):
        wide = given | {side: torch.cat([given[side], given[side]], dim=-1)}
        calls[f"{side} of twice the width"] = partial(bench.call_fused, loc, layer_id, wide, values)
    for strange in (*bench.dense_layer_ids, *bench.foreign_layer_ids):
        calls[f"layer {strange}, not sparse here"] = partial(
            bench.call_fused, loc, strange, given, values
        )
    for what, call in calls.items():
        bench.expect_raises(f"{_FUSED}({what})", call, *_NONE, RuntimeError)
        bench.expect_everything(f"{_FUSED}({what}), after it raised", wanted)


@law(
    "sparse.inputs",
    SparseIndexed,
    applies=has_index_rows,
    needs=(*_LAYERS, "sparse.fused"),
    check="make index rows dense like main rows; take `.loc` of the object that backends pass",
)
def inputs(bench: SparseIndexBench) -> None:
    """Strided rows and the location object store the same, no slot is none, no input changes."""
    wanted = bench.everything()
    for layer_id in bench.request.index_layer_ids:
        given = _given(bench, 3, layer_id)
        apart = {
            side: torch.cat([rows, rows], -1)[..., : rows.shape[-1]] for side, rows in given.items()
        }
        values = _values(bench, layer_id, apart)
        loc = torch.tensor([1, 9, 2, 9, 3, 9])[::2]
        rows = (apart["key"], apart["value"], apart["index_key"], values)
        none = (*(each[:0] for each in rows[:3]), None if values is None else values[:0])
        layer = LayerStub(layer_id)
        bench.pool.set_fused_kv_index_buffer(layer, loc[:0], *none)
        bench.expect_everything(f"{_FUSED}(loc=[])", wanted)
        for where in (loc, WriteLoc(loc)):
            bench.pool.set_fused_kv_index_buffer(layer, where, *rows)
        for side in (*bench.sides, *bench.index_sides(layer_id)):
            wanted[side, layer_id][1:4] = given[side].float()
            if not torch.equal(apart[side], given[side]):
                raise LawBroken(_FUSED, expected=f"{side} rows as they were", got="other rows")
        bench.expect_everything(f"{_FUSED}(strided rows; a location object)", wanted)


@law(
    "sparse.scales",
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    check="stored = x / scale where that side is fp8, out of place; elsewhere scales say nothing",
)
def scales(bench: SparseIndexBench) -> None:
    """Rows of a quantized side are divided by that side's scale, the others stored as they are."""
    factors = {"key": 0.5, "value": 0.25, "index_key": 0.125, "index_value": 2.0}
    for layer_id in bench.request.index_layer_ids:
        given = {side: torch.full_like(r, 4.0) for side, r in _given(bench, 1, layer_id).items()}
        values = _values(bench, layer_id, given)
        for _ in range(2):
            bench.call_fused(torch.tensor([1]), layer_id, given, values, *factors.values())
        for side in (*bench.sides, *bench.index_sides(layer_id)):
            main = side in bench.sides
            dtype = bench.request.dtype if main else bench.request.stored_index_dtype
            row = given[side][0] / (factors[side] if dtype.itemsize == 1 else 1.0)
            call = f"{_FUSED}(rows of 4.0, scales {factors}), twice"
            bench.expect_side(call, side, {1: row}, layer_id)


@law(
    "sync-free.sparse",
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    check="as for writes: fixed shapes, no boolean index",
)
def sync_free(bench: SparseIndexBench) -> None:
    """A fused write runs no operation whose shape or control flow depends on the slots."""
    loc = torch.tensor([0, 2, -1])
    for layer_id in bench.request.index_layer_ids:
        run_traced(f"{_FUSED}(layer {layer_id})", partial(bench.write_fused, loc, layer_id))


def _given(bench: SparseIndexBench, n: int, layer_id: int) -> dict[str, Tensor]:
    (k, v), (index_k, index_v) = bench.pair(n, layer_id, layer_id), bench.index_rows(n, layer_id)
    return {"key": k, "value": v, "index_key": index_k, "index_value": index_v}


def _values(bench: SparseIndexBench, layer_id: int, given: dict[str, Tensor]) -> Tensor | None:
    return given["index_value"] if "index_value" in bench.index_sides(layer_id) else None
