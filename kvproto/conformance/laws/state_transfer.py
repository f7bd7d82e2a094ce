"""Index pages that travel beside the rows, by the numbers of the KV pages."""

from __future__ import annotations

from kvproto.protocols import IndexerCapable, StateTransferable, Transferable

from ..broken import LawBroken
from ..latent_bench import LatentBench, has_index_keys
from ..law import law
from ..oracle import peek, poke

_CALL = "get_state_buf_infos()"
_LISTS = ("state-transfer.lists",)


@law(
    "state-transfer.lists",
    StateTransferable,
    IndexerCapable,
    check="three lists of one entry per owned layer; an entry without bytes has item length 0",
)
def lists(bench: LatentBench) -> None:
    """There is one entry of whole items per owned layer, in order; none without layers."""
    infos = bench.pool.get_state_buf_infos()
    sizes = [len(part) for part in infos]
    bench.expect(_CALL, expected=[len(bench.layer_ids)] * 3, got=sizes)
    for layer_id, (_, length, item) in zip(bench.layer_ids, zip(*infos, strict=True), strict=True):
        none_own = layer_id in bench.shared_layers
        if (length, item) != (0, 0) if none_own else (item <= 0 or length <= 0 or length % item):
            raise LawBroken(
                _CALL,
                expected="length and item length 0" if none_own else "whole items",
                got=f"length {length}, item length {item} for layer {layer_id}",
            )


@law(
    "state-transfer.item-len",
    StateTransferable,
    IndexerCapable,
    applies=has_index_keys,
    needs=_LISTS,
    check="an index buffer's row IS a page: its bytes are the item, not times the page size again",
)
def item_len(bench: LatentBench) -> None:
    """An item is one page of keys and scales, under the number of the KV page of its tokens."""
    page = bench.index_page_size
    pointers, lengths, items = bench.pool.get_state_buf_infos()
    wanted = bench.index_page_bytes
    for layer_id in bench.index_layers:
        at = layer_id - bench.request.start_layer
        got = (items[at], lengths[at])
        pages = bench.index_slots // page
        bench.expect(
            f"item and length of layer {layer_id}", expected=(wanted, wanted * pages), got=got
        )
    bench.fill_index()
    before = {i: bench.oracle.index(i) for i in bench.index_layers}
    for pointer, item in zip(pointers, items, strict=True):
        poke(pointer + item, peek(pointer + 2 * item, item))
    for layer_id, (keys, scales) in before.items():
        for part in (keys, scales):
            part[page : 2 * page] = part[2 * page : 3 * page].clone()
        call = "page 2's bytes copied over page 1 of every state region"
        bench.expect_index_is(call, keys, scales, layer_id)


@law(
    "state-transfer.complete",
    StateTransferable,
    Transferable,
    IndexerCapable,
    check="register every layer's index pages, a draft's too, and none of them as token pages",
)
def complete(bench: LatentBench) -> None:
    """The index pages of each layer are exported at their own address, once, and only as state."""
    buffers = bench.pool.index_k_with_scale_buffer
    owned = [(b.data_ptr(), b.nbytes) for b in buffers if b.nbytes]
    pointers, lengths, _ = bench.pool.get_state_buf_infos()
    told = [entry for entry in zip(pointers, lengths, strict=True) if entry[1]]
    bench.expect(f"{_CALL}: addresses and lengths", expected=owned, got=told)
    pages = zip(*bench.pool.get_contiguous_buf_infos()[:2], strict=True)
    twice = [
        hex(pointer)
        for pointer, length in pages
        for other, reach in owned
        if pointer < other + reach and other < pointer + length
    ]
    bench.expect("regions exported as token pages and as state", expected=[], got=twice)
