"""Index rows go where their tokens go: to other slots, to the host, to a peer."""

from __future__ import annotations

import torch

from kvproto.protocols import (
    DeclaresRegions,
    HostCopyable,
    KVPool,
    Movable,
    SparseIndexed,
    StateTransferable,
    Transferable,
)

from ..broken import LawBroken
from ..law import law
from ..oracle import peek, poke
from ..sparse_bench import SparseIndexBench, has_index_rows
from .leaf import INDEX_DTYPES, OWNED

_LAYERS = (*OWNED, "sparse.layers")


@law(
    "sparse.move",
    SparseIndexed,
    Movable,
    KVPool,
    applies=has_index_rows,
    needs=_LAYERS,
    hazardous=True,
    check="move the index pools with the main pool, and read all sources before writing",
)
def move(bench: SparseIndexBench) -> None:
    """A move takes index keys and values along, all sources read first, as if for one pool."""
    bench.fill()
    last = bench.slots - 1
    for tgt, src in (([2], [1]), ([1, 2, 3], [2, 3, 4]), ([3, 4, 2], [2, 3, 1]), ([0, -1], [1, 2])):
        for dtype in INDEX_DTYPES:
            wanted = bench.everything()
            for rows in wanted.values():
                moved = rows[src].clone()
                for target, row in zip(tgt, moved, strict=True):
                    if target > 0:
                        rows[target] = row
            bench.pool.move_kv_cache(torch.tensor(tgt, dtype=dtype), torch.tensor(src, dtype=dtype))
            bench.expect_everything(f"move_kv_cache({tgt}, {src}) {dtype} of {last} slots", wanted)


@law(
    "sparse.host-copy",
    SparseIndexed,
    HostCopyable,
    KVPool,
    applies=has_index_rows,
    needs=_LAYERS,
    check="a host copy holds the index rows of every sparse layer; put all of them back",
)
def host_copy(bench: SparseIndexBench) -> None:
    """A host copy holds the index rows of its tokens, and restores no other slot's."""
    bench.fill()
    last = bench.slots - 1
    source, target = [last, 1], [2, last - 1]
    wanted = bench.everything()
    copy = bench.pool.get_cpu_copy(torch.tensor(source), mamba_indices=None, req_pool_index=0)
    for layer_id in bench.layer_ids:
        bench.write(torch.tensor(source), *_zeros(bench, 2, layer_id), layer_id)
        if bench.index_sides(layer_id):
            keys, values = (torch.zeros_like(rows) for rows in bench.index_rows(2))
            k, v = _zeros(bench, 2, layer_id)
            given = {"key": k, "value": v, "index_key": keys}
            both = "index_value" in bench.index_sides(layer_id)
            bench.call_fused(torch.tensor(source), layer_id, given, values if both else None)
    bench.pool.load_cpu_copy(copy, torch.tensor(target), mamba_indices=None, req_pool_index=0)
    for rows in wanted.values():
        held = rows[source].clone()
        rows[source] = 0
        rows[target] = held
    bench.expect_everything(f"load_cpu_copy(get_cpu_copy({source}), {target})", wanted)


def _zeros(bench: SparseIndexBench, n: int, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    k, v = bench.pair(n, 0, layer_id)
    return torch.zeros_like(k), torch.zeros_like(v)


@law(
    "sparse.read-waits",
    SparseIndexed,
    KVPool,
    applies=has_index_rows,
    needs=_LAYERS,
    check="wait where index rows are handed out too, by the layer's place in the stage",
)
def read_waits(bench: SparseIndexBench) -> None:
    """The door that reads index keys waits for the layer's load, as every read door does."""
    waited: list[int] = []

    class Counter:
        def wait_until(self, threshold: int, /) -> None:
            waited.append(threshold)

    bench.pool.register_layer_transfer_counter(Counter())
    for layer_id in bench.request.index_layer_ids:
        waited.clear()
        bench.pool.get_index_k_buffer(layer_id)
        local = layer_id - bench.request.start_layer
        if set(waited) != {local}:
            raise LawBroken(
                f"get_index_k_buffer({layer_id}) with a counter registered",
                expected=f"a wait for layer {local} of the stage",
                got=f"waits: {waited or 'none'}",
            )


@law(
    "sparse.state-lists",
    SparseIndexed,
    StateTransferable,
    needs=OWNED,
    check="keys of every owned layer, then values of every one; 0 bytes where it has none",
)
def state_lists(bench: SparseIndexBench) -> None:
    """Index rows are exported layer by layer, keys and then values, dense layers keep a place."""
    request, page = bench.request, bench.request.page_size
    item = page * request.idx_head_dim * request.stored_index_dtype.itemsize
    wanted: list[tuple[int, int]] = []
    for keeps in (request.index_layer_ids, request.index_value_layer_ids):
        if keeps:
            wanted += [
                (item, item * (bench.slots // page)) if i in keeps else (0, 0)
                for i in bench.layer_ids
            ]
    _, lengths, items = bench.pool.get_state_buf_infos()
    got = list(zip(items, lengths, strict=True))
    bench.expect("get_state_buf_infos(): items and lengths", expected=wanted, got=got)


@law(
    "sparse.state-items",
    SparseIndexed,
    StateTransferable,
    applies=has_index_rows,
    needs=("sparse.state-lists",),
    check="an item is a KV page of index rows: bytes of a row times the page size",
)
def state_items(bench: SparseIndexBench) -> None:
    """An item is the index rows of one KV page; copying items copies those and no main row."""
    page = bench.request.page_size
    bench.fill()
    wanted = bench.everything()
    pointers, _, items = bench.pool.get_state_buf_infos()
    for pointer, item in zip(pointers, items, strict=True):
        if item:
            poke(pointer + item, peek(pointer + 2 * item, item))
    for (side, _), rows in wanted.items():
        if side not in bench.sides:
            rows[page : 2 * page] = rows[2 * page : 3 * page].clone()
    bench.expect_everything("page 2's bytes copied over page 1 of every state region", wanted)


@law(
    "sparse.sparse-pages",
    SparseIndexed,
    Transferable,
    needs=OWNED,
    check="the entries of the sparse layers, keys first, then values, as the whole list has them",
)
def sparse_pages(bench: SparseIndexBench) -> None:
    """The pages of the sparse layers alone are those entries of all pages, in the same order."""
    count = len(bench.layer_ids)
    sparse = [i for i, layer_id in enumerate(bench.layer_ids) if bench.index_sides(layer_id)]
    kept = [*sparse, *(count + i for i in sparse)]
    every = list(zip(*bench.pool.get_contiguous_buf_infos(), strict=True))
    got = list(zip(*bench.pool.get_sparse_kv_buf_infos(), strict=True))
    bench.expect("get_sparse_kv_buf_infos()", expected=[every[i] for i in kept], got=got)


@law(
    "oracle.sparse",
    DeclaresRegions,
    SparseIndexed,
    applies=has_index_rows,
    needs=_LAYERS,
    check="declare the address of page 0 of each sparse layer's index rows, under its global id",
)
def oracle(bench: SparseIndexBench) -> None:
    """An index key changed at its declared address is that element of the read door's row."""
    slot = bench.slots - 2
    page, token = divmod(slot, bench.request.page_size)
    for layer_id in bench.request.index_layer_ids:
        rows = bench.index_rows(1, layer_id)[0][0].to(bench.request.stored_index_dtype)
        found = [
            r
            for r in bench.pool.buffer_regions()
            if layer_id in r.layer_ids and r.fields[0].name == "index_key"
        ]
        bench.expect(f"regions of index keys with layer {layer_id}", expected=1, got=len(found))
        for i in range(rows.shape[-1]):
            raw = bytes(rows[0, i].reshape(1).view(torch.uint8).cpu().numpy())
            poke(found[0].address(layer_id, page, token, 0, i), raw)
        shown = bench.pool.get_index_k_buffer(layer_id)[slot : slot + 1]
        call = f"bytes put where the regions have index key {slot} of layer {layer_id}"
        bench.expect_same(call, shown.float(), rows.float().unsqueeze(0), "row")
