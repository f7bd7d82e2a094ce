"""Index keys in rows of their own: at which slots, of which layers, and with which scales."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import HostCopyable, IndexKeyRows, KVPool, Movable, ScaledIndexKeyRows
from kvproto.protocols import StateTransferable as State

from ..latent_bench import LatentBench, has_index_keys
from ..law import law
from . import indexer
from .leaf import OWNED

_LAYERS = ("index-rows.layers",)


@law(
    "index-rows.layers",
    IndexKeyRows,
    needs=OWNED,
    check="number the layers that have keys by themselves: their place is no id and no local index",
)
def layers(bench: LatentBench) -> None:
    """The layers with keys are those asked for, each with rows of its own for every slot."""
    pool, ids = bench.pool, list(bench.index_layers)
    bench.expect(
        "index_head_dim, indexer_layer_ids",
        expected=(bench.index_head_dim, ids),
        got=(pool.index_head_dim, list(pool.indexer_layer_ids)),
    )
    shape = bench.slots // bench.request.page_size, bench.request.page_size, 1, bench.index_head_dim
    shown = [pool.get_index_k_buffer(i) for i in ids]
    bench.expect(
        "shapes and dtypes behind get_index_k_buffer",
        expected=[(shape, bench.index_dtype)] * len(ids),
        got=[(tuple(each.shape), each.dtype) for each in shown],
    )
    held = [pool.index_k_buffer[place].data_ptr() for place in range(len(pool.index_k_buffer))]
    bench.expect("index_k_buffer", expected=[each.data_ptr() for each in shown], got=held)
    bench.expect("buffers of their own", expected=len(ids), got=len(set(held)))


@law(
    "index-rows.others",
    IndexKeyRows,
    needs=_LAYERS,
    check="look a layer up among those that have keys, and raise where it is not",
)
def others(bench: LatentBench) -> None:
    """A layer without keys of its own, or not owned, has no rows: reading and setting raise."""
    one, rows = torch.tensor([1]), bench.index_rows(1)
    for layer_id in (*bench.shared_layers, *bench.foreign_layer_ids):
        errors = ValueError, IndexError, KeyError
        read = partial(bench.pool.get_index_k_buffer, layer_id)
        bench.expect_raises(f"get_index_k_buffer({layer_id})", read, *errors)
        write = partial(bench.write_index, one, *rows, layer_id)
        bench.expect_raises(f"set_index_k_buffer({layer_id}, ...)", write, *errors)
    for layer_id in bench.index_layers:
        bench.expect_index("the layers with keys, after it raised", {}, layer_id)


@law(
    "index-rows.write-read",
    IndexKeyRows,
    applies=has_index_keys,
    needs=_LAYERS,
    check="the row of the slot, in the layer's own place, for keys and for scales alike",
)
def write_read(bench: LatentBench) -> None:
    """A key and its scale are found at their slot, in their layer, and nothing else changes."""
    indexer.write_read(bench)


@law(
    "index-rows.guards",
    IndexKeyRows,
    applies=has_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="drop slots of 0 and below: an operator that takes none below 0 is given zeros for 0",
)
def guards(bench: LatentBench) -> None:
    """Keys aimed at slot 0 or below are dropped with their scales, and never wrap to the end."""
    indexer.guards(bench)


@law(
    "index-rows.inputs",
    IndexKeyRows,
    applies=has_index_keys,
    needs=_LAYERS,
    check="reshape instead of view; early return where there is no slot",
)
def inputs(bench: LatentBench) -> None:
    """Strided keys and slots are stored like copies, and no slot is no change."""
    indexer.inputs(bench)


@law(
    "index-rows.refuses",
    IndexKeyRows,
    applies=has_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="check layer, shapes and the largest slot before anything is written",
)
def refuses(bench: LatentBench) -> None:
    """Foreign layers, keys of another width and slots past the end raise; nothing changes."""
    indexer.refuses(bench)


@law(
    "index-rows.move",
    IndexKeyRows,
    Movable,
    KVPool,
    applies=has_index_keys,
    needs=_LAYERS,
    hazardous=True,
    check="move index keys and scales with the rows: they are at the same slots",
)
def move(bench: LatentBench) -> None:
    """A move takes a token's index key and scale along, all sources read first."""
    indexer.move(bench)


@law(
    "index-rows.host-copy",
    IndexKeyRows,
    HostCopyable,
    KVPool,
    applies=has_index_keys,
    needs=_LAYERS,
    check="a host copy holds keys and scales of every layer that has some; put all of them back",
)
def host_copy(bench: LatentBench) -> None:
    """A host copy holds the index keys and scales of its tokens, and restores no other slot's."""
    indexer.host_copy(bench)


@law(
    "index-rows.read-waits",
    IndexKeyRows,
    KVPool,
    applies=has_index_keys,
    needs=_LAYERS,
    check="wait where index keys are handed out too, by the layer's index within the stage",
)
def read_waits(bench: LatentBench) -> None:
    """The doors that read index keys wait for the layer's load, as every read door does."""
    pool: object = bench.pool
    bench.expect_waits("get_index_k_buffer", bench.pool.get_index_k_buffer, bench.index_layers)
    if isinstance(pool, ScaledIndexKeyRows):
        read = pool.get_index_k_scale_buffer
        bench.expect_waits("get_index_k_scale_buffer", read, bench.index_layers)


@law(
    "index-rows.state",
    IndexKeyRows,
    State,
    applies=has_index_keys,
    needs=_LAYERS,
    check="keys of every layer of the stage, then scales; a place of zeros for a layer without",
)
def state(bench: LatentBench) -> None:
    """Index keys travel by KV page, in an entry for every layer of the stage, empty ones too."""
    pool: object = bench.pool
    pages, page = bench.slots // bench.request.page_size, bench.request.page_size
    widths = [bench.index_head_dim * bench.index_dtype.itemsize]
    if isinstance(pool, ScaledIndexKeyRows):
        widths.append(4)
    items = [page * w if i in bench.index_layers else 0 for w in widths for i in bench.layer_ids]
    pointers, lengths, got = bench.pool.get_state_buf_infos()
    bench.expect("get_state_buf_infos(): item lengths", expected=items, got=list(got))
    whole = [item * pages for item in items]
    bench.expect("get_state_buf_infos(): lengths", expected=whole, got=list(lengths))
    for layer_id, pointer, item in zip(bench.layer_ids, pointers, got, strict=False):
        if item:
            shown = bench.pool.get_index_k_buffer(layer_id).data_ptr()
            bench.expect(f"address of layer {layer_id}'s keys", expected=shown, got=pointer)
