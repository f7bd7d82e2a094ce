"""Attention layers beside recurrent ones: whose id is whose, and what travels with a request."""

from __future__ import annotations

import inspect
from functools import partial

import torch

from kvproto.protocols import (
    HostCopyable,
    HybridComposite,
    KPoolTail,
    LayerIdReporting,
    StateTransferable,
    Transferable,
    supports,
)

from ..broken import LawBroken
from ..composite_bench import HybridBench
from ..law import has_layers, law
from ..oracle import peek, poke
from ..storage import kept_bytes
from .transfer import by_page

LAYERS = ("hybrid.layers",)


@law(
    "hybrid.layers",
    HybridComposite,
    check="look a global id up among the attention layers, and raise for recurrent ones",
)
def layers(bench: HybridBench) -> None:
    """Attention layers answer by global id from their leaf; others raise at every door."""
    ids, recurrent = bench.layer_ids, bench.whole.state.mamba_layer_ids
    bench.expect(
        "full_attention_layer_id_mapping",
        expected={layer_id: index for index, layer_id in enumerate(ids)},
        got=dict(bench.pool.full_attention_layer_id_mapping),
    )
    bench.expect(
        "mamba_pool.mamba_layer_ids",
        expected=list(recurrent),
        got=list(bench.pool.mamba_pool.mamba_layer_ids),
    )
    for layer_id in ids:
        if not bench.shows_leaf(layer_id):
            raise LawBroken(
                f"get_key_buffer({layer_id})",
                expected=f"layer {bench.place(layer_id)[1]} of the attention leaf",
                got="another buffer",
            )
    for layer_id in set(recurrent) - set(ids):
        for door in ("get_key_buffer", "get_value_buffer", "get_kv_buffer"):
            bench.expect_raises(
                f"{door}({layer_id}), a recurrent layer",
                partial(getattr(bench.pool, door), layer_id),
                ValueError,
                KeyError,
                IndexError,
            )


@law(
    "hybrid.geometry",
    HybridComposite,
    check="read widths from the leaf's geometry, not from the buffer of layer 0; hold end_layer",
)
def geometry(bench: HybridBench) -> None:
    """Widths and the stage's bounds are there without naming a layer, layer 0 recurrent or not."""
    pool, leaf = bench.pool, bench.full.pool
    for name in ("head_num", "head_dim", "v_head_dim", "get_v_head_dim"):
        offered = inspect.getattr_static(pool, name, None) is not None
        if offered and hasattr(leaf, name):
            got, expected = getattr(pool, name), getattr(leaf, name)
            if callable(got):
                got, expected = got(), expected()
            bench.expect(f"pool.{name}", expected=expected, got=got)
    every = [*bench.layer_ids, *bench.whole.state.mamba_layer_ids]
    start, end = pool.start_layer, getattr(pool, "end_layer", None)
    if start > min(every) or (end is not None and end <= max(every)):
        raise LawBroken(
            "pool.start_layer, pool.end_layer",
            expected=f"bounds around {sorted(every)}, the end exclusive",
            got=f"{start}, {end}",
        )


@law(
    "hybrid.transfer",
    HybridComposite,
    Transferable,
    StateTransferable,
    needs=LAYERS,
    check="export the leaf by page and the state by slot, each entry under its global layer id",
)
def transfer(bench: HybridBench) -> None:
    """Rows go by page and state by slot, everything once, each entry under its global layer id."""
    infos = bench.pool.get_contiguous_buf_infos()
    owned = kept_bytes(bench.full.pool, bench.slots) if bench.layer_ids else 0
    if isinstance(bench.full.pool, KPoolTail):  # exported by request row
        owned -= sum(bench.full.pool.get_compress_tail_buf_infos()[1])
    lengths = [length for _, length, _ in by_page(bench.pool)]
    bench.expect("bytes in get_contiguous_buf_infos()", expected=owned, got=sum(lengths))
    _expect_ids_of_rows(bench, infos)
    state = bench.pool.get_state_buf_infos()
    slots, wanted = bench.state.slots, bench.state.slot_bytes
    bench.expect("items in get_state_buf_infos()", expected=wanted, got=sum(state[2]))
    bench.expect("bytes in get_state_buf_infos()", expected=wanted * slots, got=sum(state[1]))
    bench.state.expect_layer_ids("get_state_layer_ids()", bench.pool.get_state_layer_ids(), state)


@law(
    "hybrid.host-copy",
    HybridComposite,
    HostCopyable,
    needs=LAYERS,
    applies=has_layers,
    check="copy the state at mamba_indices with the rows, or say that the copy does not carry it",
)
def host_copy(bench: HybridBench) -> None:
    """A retracted request comes back with its rows, and with its state where the copy says so."""
    loc, slot, back = torch.tensor([1, 2]), torch.tensor([1]), torch.tensor([2])
    for layer_id in bench.layer_ids:
        k, v = bench.pair(8, 0, layer_id)
        bench.write(loc, k[:2], v[:2], layer_id)
    bench.state.fill(1, 3.0)
    held = bench.state.bytes_of(1)
    copy = bench.pool.get_cpu_copy(loc, mamba_indices=slot, req_pool_index=0)
    for layer_id in bench.layer_ids:
        k, v = (torch.zeros_like(x[:2]) for x in bench.pair(8, 0, layer_id))
        bench.write(loc, k, v, layer_id)
    bench.state.fill(1, 0.0)
    # Where tokens share an index key, each keeps its place among them.
    to = [1 + bench.index_kpool, 2 + bench.index_kpool] if bench.index_kpool > 1 else [4, 3]
    bench.pool.load_cpu_copy(copy, torch.tensor(to), mamba_indices=back, req_pool_index=0)
    call = f"load_cpu_copy(get_cpu_copy([1, 2], mamba_indices=[1]), {to}, mamba_indices=[2])"
    bench.expect_written(call, {i: {to[0]: 0, to[1]: 1} for i in bench.layer_ids})
    if bench.pool.cpu_copy_carries_mamba:
        bench.state.expect_slot(call, 2, held, "as it was copied")
        bench.state.expect_zero(call, 1)


def _expect_ids_of_rows(bench: HybridBench, infos: tuple[list[int], list[int], list[int]]) -> None:
    """Where the pool names the layer of each entry: that layer's bytes are there, no other's."""
    pool: object = bench.pool
    if not supports(pool, LayerIdReporting):
        return
    ids = pool.get_kv_layer_ids()
    bench.expect("len(get_kv_layer_ids())", expected=len(infos[0]), got=len(ids))
    bench.write_all_slots()
    for index, (pointer, _, item) in enumerate(zip(*infos, strict=True)):
        before = {i: bench.contents(i) for i in bench.layer_ids}
        kept = peek(pointer + item, item)
        poke(pointer + item, bytes(item))
        changed = [
            i
            for i, held in before.items()
            if any(not torch.equal(*pair) for pair in zip(held, bench.contents(i), strict=True))
        ]
        poke(pointer + item, kept)
        bench.expect(
            f"layers that entry {index} of get_contiguous_buf_infos() holds",
            expected=[ids[index]],
            got=changed,
        )
