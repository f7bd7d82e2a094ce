"""Index keys and their scales: in which page, at which bytes, for which layers."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import DeclaresRegions, HostCopyable, IndexerCapable, KVPool, Movable

from ..broken import LawBroken
from ..latent_bench import LatentBench, has_index_keys, has_own_index_keys, shares_a_choice
from ..law import law
from .leaf import INDEX_DTYPES, OWNED

_LAYERS = ("indexer.layers",)
_FAR_PAGE = 1_000_000


@law(
    "indexer.layers",
    IndexerCapable,
    needs=OWNED,
    check="subtract start_layer; a layer that shares a choice keeps its place with no pages",
)
def layers(bench: LatentBench) -> None:
    """Every owned layer has a place of its own, with pages or none."""
    pool, page = bench.pool, bench.index_page_size
    facts = (pool.index_head_dim, pool.index_page_size, pool.index_kpool)
    bench.expect(
        "index_head_dim, index_page_size, index_kpool",
        expected=(bench.index_head_dim, page, bench.index_kpool),
        got=facts,
    )
    by_id = [pool.get_index_k_with_scale_buffer(i) for i in bench.layer_ids]
    in_order = list(pool.index_k_with_scale_buffer)
    if [b.data_ptr() for b in by_id] != [b.data_ptr() for b in in_order]:
        raise LawBroken(
            "get_index_k_with_scale_buffer(layer_id) for each owned layer",
            expected="the tensors of index_k_with_scale_buffer in local order",
            got="others",
        )
    pages = [0 if i in bench.shared_layers else bench.index_slots // page for i in bench.layer_ids]
    bench.expect("pages of each layer", expected=pages, got=[len(b) for b in in_order])


@law(
    "indexer.layers-foreign",
    IndexerCapable,
    needs=OWNED,
    check="compare the id with the stage's bounds: Python takes a list's last element for -1",
)
def layers_foreign(bench: LatentBench) -> None:
    """A layer that the pool does not own has no index keys: its door raises."""
    for layer_id in bench.foreign_layer_ids:
        bench.expect_raises(
            f"get_index_k_with_scale_buffer({layer_id}) on layers {list(bench.layer_ids)}",
            partial(bench.pool.get_index_k_with_scale_buffer, layer_id),
            ValueError,
            IndexError,
            KeyError,
        )


@law(
    "indexer.write-read",
    IndexerCapable,
    applies=has_index_keys,
    needs=_LAYERS,
    check="page and offset of the slot, for keys and for scales alike",
)
def write_read(bench: LatentBench) -> None:
    """A key and its scale are found at their slot, in their layer, and nothing else changes."""
    slots = [bench.index_slots - 1, 1, bench.index_page_size]
    for layer_id in bench.index_layers:
        for dtype in INDEX_DTYPES:
            loc = torch.tensor(slots, dtype=dtype)
            bench.write_index(loc, *bench.index_rows(3, salt=layer_id), layer_id)
    for layer_id in bench.index_layers:
        keys, scales = bench.index_rows(3, salt=layer_id)
        bench.expect_index(
            f"{bench.index_writer}({layer_id}, loc={slots}, ...)",
            {slot: (keys[i], float(scales[i])) for i, slot in enumerate(slots)},
            layer_id,
        )


@law(
    "indexer.page-layout",
    IndexerCapable,
    applies=has_index_keys,
    needs=_LAYERS,
    check="a page is all its keys, then all its scales: 132 bytes a token of 128, 8448 for 64; "
    "preshuffled, byte d of key t is at [t // 16, d // 16, t % 16, d % 16] of the keys",
)
def page_layout(bench: LatentBench) -> None:
    """The buffer's pages hold the keys of their tokens, then the scales, as kernels read them."""
    page, width = bench.index_page_size, bench.index_head_dim
    bench.fill_index()
    keys, scales = bench.index_rows(bench.index_slots - 1, salt=bench.index_layers[0])
    buffer = bench.pool.get_index_k_with_scale_buffer(bench.index_layers[0])
    shape = (bench.index_slots // page, bench.index_page_bytes)
    bench.expect("get_index_k_with_scale_buffer: shape", expected=shape, got=tuple(buffer.shape))
    expected = torch.zeros(bench.index_slots, width + 4, dtype=torch.uint8)
    expected[1:, :width] = keys.view(torch.uint8)
    expected[1:, width:] = scales.unsqueeze(1).view(torch.uint8)
    by_page = expected.view(-1, page, width + 4)
    for number, (got, tokens) in enumerate(zip(buffer, by_page, strict=True)):
        keys = tokens[:, :width]
        if tile := bench.index_tile:
            keys = keys.reshape(page // tile, tile, width // tile, tile).transpose(1, 2)
        wanted = torch.cat([keys.flatten(), tokens[:, width:].flatten()])
        tiled = f" in tiles of {tile}" if tile else ""
        call = f"bytes of index page {number}: {page} keys of {width}{tiled}, then {page} scales"
        bench.expect_same(call, got.unsqueeze(1), wanted.unsqueeze(1), "byte")


@law(
    "indexer.variant",
    IndexerCapable,
    DeclaresRegions,
    applies=has_index_keys,
    needs=("indexer.write-read",),
    check="keep the fp8 type of the keys beside their pages, and compare what is given with it",
)
def variant(bench: LatentBench) -> None:
    """The region of index keys names the fp8 that was asked for, and keys of another are refused.

    A byte of e4m3fn is twice the number that it is in e4m3fnuz; as uint8 keys are their bytes.
    """
    regions = [r for r in bench.pool.buffer_regions() if r.fields[0].name == "index_key"]
    element = str(bench.index_dtype).removeprefix("torch.")
    told = {region.field("index_key").element for region in regions}
    bench.expect("buffer_regions(): element of index_key", expected={element}, got=told)
    both = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
    keys, scales = bench.index_rows(2)
    for other in {*both, torch.float8_e5m2} - {bench.index_dtype}:
        write = partial(bench.write_index, torch.tensor([1, 2]), keys.view(other), scales)
        bench.expect_raises(f"set_index_k_scale_buffer(keys of {other})", write, ValueError)
    bench.expect_index("set_index_k_scale_buffer, after it raised", {})
    bench.write_index(torch.tensor([1, 2]), keys.view(torch.uint8), scales)
    rows = {i + 1: (keys[i], float(scales[i])) for i in range(2)}
    bench.expect_index("set_index_k_scale_buffer(keys as uint8)", rows)


@law(
    "indexer.inputs",
    IndexerCapable,
    applies=has_index_keys,
    needs=_LAYERS,
    check="reshape instead of view; one indexed copy per part, so that a key keeps its scale",
)
def inputs(bench: LatentBench) -> None:
    """Strided input stores like its copy, no slot is no change, a duplicate keeps its own scale."""
    keys, scales = bench.index_rows(3)
    bench.write_index(torch.empty(0, dtype=torch.int64), keys[:0], scales[:0])
    bench.expect_index(f"{bench.index_writer}(loc=[])", {})
    raw = keys.view(torch.uint8)
    apart = torch.cat([raw, raw], dim=1)[:, : raw.shape[1]].view(bench.index_dtype)
    spread = scales.repeat_interleave(2)[::2]
    loc = torch.tensor([1, 9, 2, 9, 3, 9])[::2]
    for column in (spread, spread.unsqueeze(1)):
        bench.write_index(loc, apart, column)
        rows = {i + 1: (keys[i], float(scales[i])) for i in range(3)}
        bench.expect_index(f"{bench.index_writer}(strided loc, keys and scales)", rows)
    bench.write_index(torch.tensor([2, 2, 2]), *bench.index_rows(3, salt=1))
    got_keys, got_scales = bench.oracle.index(bench.index_layers[0])
    offered = zip(*bench.index_rows(3, salt=1), strict=True)
    if not any(
        torch.equal(got_keys[2], key.view(torch.uint8)) and got_scales[2] == scale
        for key, scale in offered
    ):
        raise LawBroken(
            f"{bench.index_writer}(loc=[2, 2, 2], ...)",
            expected="one of the keys with its own scale",
            got=f"scale {float(got_scales[2])}",
        )


@law(
    "indexer.guards",
    IndexerCapable,
    applies=has_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="drop slots of 0 and below, for the keys and for the scales",
)
def guards(bench: LatentBench) -> None:
    """Keys aimed at slot 0 or below are dropped with their scales, and never wrap to the end."""
    keys, scales = bench.index_rows(4)
    for slots in ([0, 3, 0, 0], [-1, 3, -bench.index_slots, 0], [-212, 3, -64, -1]):
        for dtype in INDEX_DTYPES:
            bench.write_index(torch.tensor(slots, dtype=dtype), keys, scales)
            call = f"{bench.index_writer}(loc={slots} {dtype}, ...)"
            bench.expect_index(call, {3: (keys[1], float(scales[1]))})


@law(
    "indexer.refuses",
    IndexerCapable,
    applies=has_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="check layer, shapes and the largest slot before anything is written",
)
def refuses(bench: LatentBench) -> None:
    """Foreign layers, keys of another width and slots past the end raise; nothing changes."""
    keys, scales = bench.index_rows(2)
    loc, past = torch.tensor([1, 2]), torch.tensor([1, bench.index_slots])
    write = bench.write_index
    for layer_id in bench.foreign_layer_ids:
        call = f"{bench.index_writer}({layer_id}) on layers {list(bench.layer_ids)}"
        errors = (ValueError, IndexError, KeyError)
        bench.expect_raises(call, partial(write, loc, keys, scales, layer_id), *errors)
    bench.expect_raises(
        f"{bench.index_writer}(keys of half the width)",
        partial(write, loc, keys[:, ::2], scales),
        ValueError,
        RuntimeError,
    )
    if bench.in_host_memory:  # kernels of a device check no location
        bench.expect_raises(
            f"{bench.index_writer}(loc=[1, {bench.index_slots}]) on {bench.index_slots} slots",
            partial(write, past, keys, scales),
            IndexError,
            ValueError,
        )
    for layer_id in bench.index_layers:
        bench.expect_index(f"{bench.index_writer}, after it raised", {}, layer_id)


@law(
    "indexer.gather",
    IndexerCapable,
    applies=has_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="page_indices are pages, seq_lens keys; what lies past a length is not looked at",
)
def gather(bench: LatentBench) -> None:
    """A batch's keys and scales come request after request; the table's tails are not read."""
    page, layer_id = bench.index_page_size, bench.index_layers[-1]
    bench.fill_index()
    keys, scales = bench.oracle.index(layer_id)
    lengths = [page + max(1, page // 2), 1, 2 * page]
    table = [[2, 1, -1], [3, _FAR_PAGE, -1], [1, 3, _FAR_PAGE]]
    slots = [
        row[i // page] * page + i % page
        for row, length in zip(table, lengths, strict=True)
        for i in range(length)
    ]
    for dtype in INDEX_DTYPES:
        lens, pages = torch.tensor(lengths, dtype=dtype), torch.tensor(table, dtype=dtype)
        got_keys, got_scales = bench.pool.get_index_k_scale_buffer(
            layer_id, lens, pages, sum(lengths), max(lengths)
        )
        call = f"get_index_k_scale_buffer(lengths {lengths}, pages {table}, {dtype})"
        bench.expect_same(call, got_keys.view(torch.uint8), keys[slots], "gathered key")
        raw = scales[slots].unsqueeze(1).view(torch.uint8)
        bench.expect_same(
            call, got_scales.view(torch.uint8).view(len(slots), 4), raw, "gathered scale"
        )
        got_keys.zero_()
    bench.expect_index_is("get_index_k_scale_buffer, then zeros into it", keys, scales, layer_id)


@law(
    "indexer.move",
    IndexerCapable,
    Movable,
    KVPool,
    applies=has_own_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="the buffer's first axis is pages: turn a slot into page and offset, read before writing",
)
def move(bench: LatentBench) -> None:
    """A move takes a token's index key and scale along, across pages, all sources read first."""
    bench.fill_index()
    page = bench.request.page_size
    edge = max(1, 2 * page - 2)
    steps = [edge, edge + 1, edge + 2]
    far = [2 * page + 2 % page], [page + 6 % page]
    moves = ([2], [1]), far, (steps, [s + 1 for s in steps]), ([s + 1 for s in steps], steps)
    for tgt, src in (*moves, ([0, -1], [1, 2]), ([], [])):
        for dtype in INDEX_DTYPES:
            before = {i: bench.oracle.index(i) for i in bench.index_layers}
            bench.pool.move_kv_cache(torch.tensor(tgt, dtype=dtype), torch.tensor(src, dtype=dtype))
            for layer_id, (keys, scales) in before.items():
                expected = keys.clone(), scales.clone()
                for into, of in zip(expected, (keys, scales), strict=True):
                    _moved(into, of, tgt, src)
                bench.expect_index_is(f"move_kv_cache({tgt}, {src}) {dtype}", *expected, layer_id)


def _moved(into: Tensor, of: Tensor, tgt: list[int], src: list[int]) -> None:
    for target, source in zip(tgt, src, strict=True):
        if target > 0:
            into[target] = of[source]


@law(
    "indexer.shared-layers",
    IndexerCapable,
    applies=shares_a_choice,
    needs=_LAYERS,
    check="raise where a layer has no keys of its own, instead of answering for another layer",
)
def shared_layers(bench: LatentBench) -> None:
    """A layer that reuses an earlier choice owns no pages, and setting or gathering keys raises."""
    pool, one = bench.pool, torch.tensor([1])
    page = torch.ones(1, 1, dtype=torch.int32)
    for layer_id in bench.shared_layers:
        write = partial(bench.write_index, one, *bench.index_rows(1), layer_id)
        read = partial(pool.get_index_k_scale_buffer, layer_id, one, page, 1, 1)
        bench.expect_raises(f"set_index_k_scale_buffer({layer_id}, ...)", write, ValueError)
        bench.expect_raises(f"get_index_k_scale_buffer({layer_id}, ...)", read, ValueError)
    for layer_id in bench.index_layers:
        bench.expect_index("the layers with keys, after it raised", {}, layer_id)


@law(
    "indexer.host-copy",
    IndexerCapable,
    HostCopyable,
    KVPool,
    applies=has_own_index_keys,
    needs=_LAYERS,
    check="a host copy holds keys and scales of every layer that has some; put all of them back",
)
def host_copy(bench: LatentBench) -> None:
    """A host copy holds the index keys and scales of its tokens, and restores no other slot's."""
    bench.fill_index()
    last = bench.slots - 1
    source, target = [last, 1], [2, last - 1]
    before = {i: bench.oracle.index(i) for i in bench.index_layers}
    copy = bench.pool.get_cpu_copy(torch.tensor(source), mamba_indices=None, req_pool_index=0)
    blank = torch.zeros(2, bench.index_head_dim, dtype=bench.index_dtype)
    for layer_id in bench.index_layers:
        bench.write_index(torch.tensor(source), blank, torch.zeros(2), layer_id)
    bench.pool.load_cpu_copy(copy, torch.tensor(target), mamba_indices=None, req_pool_index=0)
    for layer_id, parts in before.items():
        expected = [part.clone() for part in parts]
        for into, of in zip(expected, parts, strict=True):
            into[source] = 0
            into[target] = of[source]
        call = f"load_cpu_copy(get_cpu_copy({source}), {target}): index keys"
        bench.expect_index_is(call, expected[0], expected[1], layer_id)


@law(
    "indexer.read-waits",
    IndexerCapable,
    KVPool,
    applies=has_index_keys,
    needs=_LAYERS,
    check="wait where index keys are handed out too: they arrive with the layer's rows",
)
def read_waits(bench: LatentBench) -> None:
    """The doors that read index keys wait for the layer's load, as every read door does."""
    one, page, pool = torch.tensor([1]), torch.ones(1, 1, dtype=torch.int32), bench.pool
    bench.expect_waits(
        "get_index_k_with_scale_buffer", pool.get_index_k_with_scale_buffer, bench.layer_ids
    )
    bench.expect_waits(
        "get_index_k_scale_buffer",
        lambda i: pool.get_index_k_scale_buffer(i, one, page, 1, 1),
        bench.index_layers,
    )
