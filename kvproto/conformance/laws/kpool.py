"""Index keys of several tokens: when they are written, and where tokens wait until then."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import HostCopyable, IndexerCapable, KPoolTail, KVPool, Movable

from ..broken import LawBroken
from ..kpool_bench import Decoded, decode, has_groups, has_tails, pooled, ring_shape, tails, token
from ..latent_bench import LatentBench
from ..law import law
from ..oracle import peek, poke
from .leaf import OWNED
from .sync_free import run_traced

_RINGS = (*OWNED, "kpool.rings")
_DECODE = "kpool_decode_update_index_cache"
PEAKS = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 224.0}
"""What the largest element of a weighed key becomes."""
_ERRORS = (ValueError, IndexError, KeyError)


@law(
    "kpool.rings",
    KPoolTail,
    applies=has_tails,
    needs=OWNED,
    check="rows for every running request and one for padding; tokens of a group, and the extra",
)
def rings(bench: LatentBench) -> None:
    """Each layer with index keys has two rings per request row, of its own; others have none."""
    pool, shape = bench.pool, ring_shape(bench)
    told = (pool.kpool_use_compress, pool.index_kpool_compress)
    bench.expect("kpool_use_compress, index_kpool_compress", expected=(True, True), got=told)
    seen: set[int] = set()
    for layer_id in bench.layer_ids:
        own = layer_id in bench.index_layers
        for ring in pool.get_compress_tail_buffers(layer_id):
            call = f"get_compress_tail_buffers({layer_id}): rows of the rings"
            bench.expect(call, expected=shape[0] if own else 0, got=ring.shape[0])
            if own:
                bench.expect(call, expected=shape, got=tuple(ring.shape))
                seen.add(ring.data_ptr())
    bench.expect("rings of their own", expected=2 * len(bench.index_layers), got=len(seen))
    for layer_id in bench.foreign_layer_ids:
        call = f"get_compress_tail_buffers({layer_id}) on layers {list(bench.layer_ids)}"
        bench.expect_raises(call, partial(pool.get_compress_tail_buffers, layer_id), *_ERRORS)


@law(
    "kpool.prefill-tail",
    KPoolTail,
    applies=has_tails,
    needs=_RINGS,
    hazardous=True,
    check="ring slot (dst_logical_start + i) % ring of the request's row; rows below 1 are padding",
)
def prefill_tail(bench: LatentBench) -> None:
    """The last tokens of a prefill go to their request's ring slots, around its end, no other."""
    for layer_id in bench.index_layers:
        wanted = tails(bench, layer_id)
        rows, ring = wanted[0].shape[:2]
        for row, count, start in (
            (rows - 1, 2, 2 * ring - 1),
            (1, ring, 3),
            (2, 0, 0),
            (0, 1, 1),
            (-1, 1, 1),
        ):
            parts = [token(bench, row, start + i) for i in range(count)] or [token(bench, 1, 0)]
            given = [torch.stack(each)[:count] for each in zip(*parts, strict=True)]
            bench.pool.set_compress_tail_for_request(
                layer_id, torch.tensor(row), *given, count, start
            )
            for held, new in zip(wanted, given, strict=True):
                for i in range(count if row > 0 else 0):
                    held[row, (start + i) % ring] = new[i].float()
            call = f"set_compress_tail_for_request(row {row}, {count} tokens from {start})"
            _expect_tails(bench, call, layer_id, wanted)


@law(
    "kpool.decode",
    KPoolTail,
    applies=has_tails,
    needs=_RINGS,
    check="the group's ring slots start at position - position % group; its key goes by its page",
)
def decoded(bench: LatentBench) -> None:
    """A group's last token writes the weighed, rotated key of the group to its index slot."""
    ring_rows = tails(bench, bench.index_layers[0])[0].shape[0]
    requests = (1, ring_rows - 1)
    for layer_id in bench.index_layers:
        wanted = tails(bench, layer_id)
        ring, due = wanted[0].shape[1], dict[int, Tensor]()
        for position in range(2 * bench.index_kpool + 1):
            decode(bench, layer_id, [Decoded(row, position) for row in requests])
            for row in requests:
                for held, new in zip(wanted, token(bench, row, position), strict=True):
                    held[row, position % ring] = new.float()
                if position % bench.index_kpool == bench.index_kpool - 1:
                    slot = Decoded(row, position).index_slot(bench)
                    due[slot] = pooled(bench, row, position)
            call = f"{_DECODE}(layer {layer_id}, position {position} of requests {requests})"
            _expect_tails(bench, call, layer_id, wanted)
            _expect_pooled(bench, call, layer_id, due)


@law(
    "kpool.round-scale",
    KPoolTail,
    applies=has_tails,
    needs=(*_RINGS, "kpool.decode"),
    check="exp2(ceil(log2(largest / 448))) where round_scale asks for it, and only there",
)
def round_scale(bench: LatentBench) -> None:
    """With `round_scale` a scale is the next power of two, and the key is stored by it."""
    layer_id, last = bench.index_layers[0], bench.index_kpool - 1
    for position in range(bench.index_kpool):
        decode(bench, layer_id, [Decoded(1, position)], round_scale=True)
    slot, key = Decoded(1, last).index_slot(bench), pooled(bench, 1, last)
    keys, scales = bench.oracle.index(layer_id)
    least = float(key.abs().max()) / PEAKS[bench.index_dtype]
    exponent = torch.tensor(float(scales[slot])).log2()
    fits = (
        bool(exponent == exponent.round()) and least * 0.99 <= float(scales[slot]) <= 2.02 * least
    )
    call = f"{_DECODE}(round_scale=True): scale {float(scales[slot])} for a least one of {least}"
    bench.expect(call, expected=True, got=fits)
    _expect_near(call, keys[slot].view(bench.index_dtype).double() * scales[slot], key)


@law(
    "kpool.padding",
    KPoolTail,
    applies=has_tails,
    needs=_RINGS,
    hazardous=True,
    check="drop a token without a request row, a location, or a place in its sequence",
)
def padding(bench: LatentBench) -> None:
    """Padded tokens of a decode step change no ring and no index key, wherever they point."""
    layer_id, last = bench.index_layers[0], bench.index_kpool - 1
    rows = tails(bench, layer_id)[0].shape[0]
    for position in range(last):
        decode(bench, layer_id, [Decoded(1, position)])
    held = tails(bench, layer_id)
    pads = [
        Decoded(0, last),
        Decoded(-1, last, 5),
        Decoded(rows, last),
        Decoded(1, last, 0),
        Decoded(1, last, -3),
        Decoded(1, last, seq_len=last),
        Decoded(1, -1, 5),
    ]
    for pad in pads:
        decode(bench, layer_id, [pad])
        _expect_tails(bench, f"{_DECODE}({pad})", layer_id, held)
        _expect_pooled(bench, f"{_DECODE}({pad})", layer_id, {})
    decode(bench, layer_id, [*pads, Decoded(1, last)])
    due = {Decoded(1, last).index_slot(bench): pooled(bench, 1, last)}
    _expect_pooled(bench, f"{_DECODE}({pads} and a token)", layer_id, due)


@law(
    "kpool.refuses",
    KPoolTail,
    applies=has_tails,
    needs=_RINGS,
    check="look at the layer and at the shapes before the first ring is written",
)
def refuses(bench: LatentBench) -> None:
    """Foreign layers, layers without keys and tails of another width raise and change nothing."""
    pool, own = bench.pool, bench.index_layers[0]
    key, score = (each.unsqueeze(0) for each in token(bench, 1, 0))
    narrow = key[:, ::2]
    put = partial(pool.set_compress_tail_for_request, req_pool_idx=torch.tensor(1))
    for layer_id in (*bench.foreign_layer_ids, *bench.shared_layers):
        call = f"on layer {layer_id}, which has no rings"
        write = partial(
            put, layer_id, key_tail=key, score_tail=score, n_remain=1, dst_logical_start=0
        )
        bench.expect_raises(f"set_compress_tail_for_request {call}", write, *_ERRORS)
        step = partial(decode, bench, layer_id, [Decoded(1, 0)])
        bench.expect_raises(f"{_DECODE} {call}", step, *_ERRORS)
    write = partial(put, own, key_tail=narrow, score_tail=score, n_remain=1, dst_logical_start=0)
    bench.expect_raises(
        "set_compress_tail_for_request(half the width)", write, *_ERRORS, RuntimeError
    )
    for layer_id in bench.index_layers:
        blank = [torch.zeros_like(ring) for ring in tails(bench, layer_id)]
        _expect_tails(bench, "rings, after it raised", layer_id, (blank[0], blank[1]))


@law(
    "kpool.transfer",
    KPoolTail,
    applies=has_tails,
    needs=_RINGS,
    check="keys of all layers, then scores; an item is the ring of one request row",
)
def transfer(bench: LatentBench) -> None:
    """Rings are exported by request row, keys of every layer and then scores, keeping places."""
    pointers, lengths, items = bench.pool.get_compress_tail_buf_infos()
    wanted: list[tuple[int, int, int]] = []
    pairs = [bench.pool.get_compress_tail_buffers(i) for i in bench.layer_ids]
    for side in (0, 1):
        for pair in pairs:
            ring = pair[side]
            item = ring[0].nbytes if len(ring) else 0
            wanted.append((ring.data_ptr() if item else 0, ring.nbytes, item))
    got = [
        (pointer if item else 0, length, item)
        for pointer, length, item in zip(pointers, lengths, items, strict=True)
    ]
    bench.expect("get_compress_tail_buf_infos()", expected=wanted, got=got)
    for layer_id in bench.index_layers:
        decode(bench, layer_id, [Decoded(2, 0), Decoded(1, 1)])
    before = {i: tails(bench, i) for i in bench.index_layers}
    for pointer, item in zip(pointers, items, strict=True):
        if item:
            poke(pointer + item, peek(pointer + 2 * item, item))
    for layer_id, held in before.items():
        for ring in held:
            ring[1] = ring[2].clone()
        call = "row 2's bytes copied over row 1 of every exported ring"
        _expect_tails(bench, call, layer_id, held)


@law(
    "kpool.host-copy",
    KPoolTail,
    HostCopyable,
    KVPool,
    applies=has_tails,
    needs=_RINGS,
    check="the rings of req_pool_index belong to the request: copy them out and back with it",
)
def host_copy(bench: LatentBench) -> None:
    """A host copy with a request row holds its rings, and restores them to the row it is given."""
    one = torch.tensor([bench.index_kpool])
    for layer_id in bench.index_layers:
        decode(bench, layer_id, [Decoded(1, 0), Decoded(2, 1)])
    wanted = {i: tails(bench, i) for i in bench.index_layers}
    copy = bench.pool.get_cpu_copy(one, mamba_indices=None, req_pool_index=1)
    for layer_id, held in wanted.items():
        decode(bench, layer_id, [Decoded(1, 1)])
        for ring, new in zip(held, token(bench, 1, 1), strict=True):
            row = ring[1].clone()
            ring[1, 1] = new.float()
            ring[-1] = row
    last = wanted[bench.index_layers[0]][0].shape[0] - 1
    bench.pool.load_cpu_copy(copy, one, mamba_indices=None, req_pool_index=last)
    for layer_id, held in wanted.items():
        _expect_tails(bench, f"load_cpu_copy(row 1's copy, row {last})", layer_id, held)


@law(
    "indexer.group-copy",
    IndexerCapable,
    HostCopyable,
    KVPool,
    applies=has_groups,
    needs=("indexer.layers",),
    check="the key of a group goes with the group's tokens: to the group they are loaded into",
)
def group_copy(bench: LatentBench) -> None:
    """A host copy of whole groups holds their index keys, and restores no other group's."""
    bench.fill_index()
    group, last = bench.index_kpool, bench.index_slots - 1
    source, target = [last, 1], [2, last - 1]
    before = {i: bench.oracle.index(i) for i in bench.index_layers}
    by = [[slot * group + i for slot in slots for i in range(group)] for slots in (source, target)]
    copy = bench.pool.get_cpu_copy(torch.tensor(by[0]), mamba_indices=None, req_pool_index=0)
    blank = torch.zeros(2, bench.index_head_dim, dtype=torch.uint8).view(bench.index_dtype)
    for layer_id in bench.index_layers:
        bench.write_index(torch.tensor(source), blank, torch.zeros(2), layer_id)
    bench.pool.load_cpu_copy(copy, torch.tensor(by[1]), mamba_indices=None, req_pool_index=0)
    for layer_id, parts in before.items():
        expected = [part.clone() for part in parts]
        for into, of in zip(expected, parts, strict=True):
            into[source] = 0
            into[target] = of[source]
        call = f"load_cpu_copy of groups {source} into {target}: index keys"
        bench.expect_index_is(call, expected[0], expected[1], layer_id)


@law(
    "indexer.group-move",
    IndexerCapable,
    Movable,
    KVPool,
    applies=has_groups,
    needs=("indexer.layers",),
    hazardous=True,
    check="move the key of a group with its tokens, or set move_kv_cache to None on the class",
)
def group_move(bench: LatentBench) -> None:
    """A pool that can move tokens takes the index key along when a whole group is moved."""
    bench.fill_index()
    group, tokens = bench.index_kpool, torch.arange(bench.index_kpool)
    before = {i: bench.oracle.index(i) for i in bench.index_layers}
    bench.pool.move_kv_cache(3 * group + tokens, 2 * group + tokens)
    for layer_id, (keys, scales) in before.items():
        keys[3], scales[3] = keys[2].clone(), scales[2].clone()
        bench.expect_index_is("move_kv_cache of group 2 to group 3", keys, scales, layer_id)


@law(
    "sync-free.kpool",
    KPoolTail,
    applies=has_tails,
    needs=_RINGS,
    check="where and clamp: whether a group is full is on the device",
)
def sync_free(bench: LatentBench) -> None:
    """Tails are written by operations whose shape and control flow depend on no request."""
    own, put = bench.index_layers[0], bench.pool.set_compress_tail_for_request
    parts = [each.unsqueeze(0) for each in token(bench, 1, 0)]
    tokens = [Decoded(1, bench.index_kpool - 1), Decoded(0, 0)]
    run_traced(_DECODE, lambda: decode(bench, own, tokens))
    row = torch.tensor(1)
    run_traced("set_compress_tail_for_request", lambda: put(own, row, *parts, 1, 3))


def _expect_tails(
    bench: LatentBench, call: str, layer_id: int, wanted: tuple[Tensor, Tensor]
) -> None:
    found = tails(bench, layer_id)
    for name, got, expected in zip(("keys", "scores"), found, wanted, strict=True):
        bench.expect_same(call, got, expected, f"ring of {name} of layer {layer_id}, row")


def _expect_pooled(bench: LatentBench, call: str, layer_id: int, due: dict[int, Tensor]) -> None:
    """These keys, as near as e4m3fn gets, with the scale of their peak; other slots are zero."""
    keys, scales = bench.oracle.index(layer_id)
    filled = (keys.any(1) | (scales != 0)).nonzero().flatten()
    written = sorted(int(slot) for slot in filled)
    bench.expect(f"{call}: index slots with a key", expected=sorted(due), got=written)
    for slot, key in due.items():
        peak = PEAKS[bench.index_dtype]
        least = float(key.abs().max()) / peak
        if abs(float(scales[slot]) / least - 1) > 0.01:
            got = f"{float(scales[slot])} at slot {slot}"
            raise LawBroken(f"{call}: scale", expected=f"{least}, a peak over {peak}", got=got)
        _expect_near(call, keys[slot].view(bench.index_dtype).double() * scales[slot], key)


def _expect_near(call: str, got: Tensor, key: Tensor) -> None:
    """Within half a step of e4m3fn, and what two roundings to bf16 of the peak's size make."""
    allowed = key.abs() / 16 + key.abs().max() / 64
    wrong = ((got - key).abs() > allowed).nonzero().flatten()
    if len(wrong):
        i = int(wrong[0])
        raise LawBroken(
            call, expected=f"element {i} = {float(key[i]):.4f}", got=f"{float(got[i]):.4f}"
        )
