"""A window pair: which space a location is in, and that each row lands in its own leaf."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from kvproto.protocols import (
    HostCopyable,
    Movable,
    StateTransferable,
    SWAComposite,
    Transferable,
)

from ..broken import LawBroken
from ..composite_bench import SWABench, numbers
from ..kv_bench import Side, WriteLoc
from ..law import has_layers, law
from ..oracle import peek, poke
from ..storage import owned_bytes
from .sync_free import run_traced

LAYERS = ("swa.layers",)
INTEGERS = (torch.int32, torch.int64)


@law(
    "swa.translate",
    SWAComposite,
    check="index the table with locations clamped to 0 or above, and never by -1 itself",
)
def translate(bench: SWABench) -> None:
    """Locations become their peers; 0 and those without a peer 0, -1 never another slot."""
    some, none = bench.mapped[:3], bench.unmapped[:1]
    asked = [0, *some, *none, some[0], 0]
    for dtype in INTEGERS:
        found = _translated(bench, asked, dtype)
        bench.expect(
            f"translate_loc_from_full_to_swa({asked} {dtype})",
            expected=str(bench.peers(asked)),
            got=str(numbers(found)),
        )
        for negative in (-1, -2, -bench.slots):
            got = numbers(_translated(bench, [negative, some[0]], dtype))
            if got[0] not in (0, -1) or got[1] != bench.table[some[0]]:
                raise LawBroken(
                    f"translate_loc_from_full_to_swa([{negative}, {some[0]}] {dtype})",
                    expected=f"[-1 or 0, {int(bench.table[some[0]])}]",
                    got=str(got),
                )


@law(
    "swa.translate-form",
    SWAComposite,
    check="declare one result dtype and keep it; reshape back to the shape that was asked",
)
def translate_form(bench: SWABench) -> None:
    """A translation keeps the shape it is asked in, and has one integer dtype whatever goes in."""
    seen: set[torch.dtype] = set()
    for table in INTEGERS:
        bench.pool.register_mapping(bench.table.to(table))
        for dtype in INTEGERS:
            flat = torch.tensor([bench.mapped[0], 0, bench.mapped[1], -1], dtype=dtype)
            for asked in (flat, flat.view(2, 2), flat.view(2, 2).T, flat[::2], flat[:0]):
                found = bench.pool.translate_loc_from_full_to_swa(asked)
                call = f"translate_loc_from_full_to_swa({dtype}, shape {tuple(asked.shape)})"
                bench.expect(call, expected=asked.shape, got=found.shape)
                wanted, got = bench.peers(numbers(asked)), numbers(found.clamp(min=0))
                bench.expect(call, expected=wanted, got=got)
                seen.add(found.dtype)
    if len(seen) != 1 or not seen <= set(INTEGERS):
        raise LawBroken(
            "translate_loc_from_full_to_swa",
            expected="one integer dtype",
            got=str(sorted(map(str, seen))),
        )


@law(
    "swa.mapping-live",
    SWAComposite,
    check="keep the tensor that was registered, not a copy: the allocator goes on writing to it",
)
def mapping_live(bench: SWABench) -> None:
    """The registered table stays the allocator's: what it writes there counts at once."""
    taken, given = bench.mapped[0], bench.mapped[1]
    bench.live[taken] = 0
    bench.live[given] = bench.table[taken]
    got = numbers(_translated(bench, [taken, given]))
    bench.expect(
        "translate_loc_from_full_to_swa after the allocator wrote to its table",
        expected=[0, int(bench.table[taken])],
        got=got,
    )
    held = bench.pool.full_to_swa_index_mapping
    if held is not None and not torch.equal(held.cpu()[: bench.slots], bench.live[: bench.slots]):
        raise LawBroken("full_to_swa_index_mapping", expected="the table", got="another content")


@law(
    "swa.layers",
    SWAComposite,
    check="enumerate each side's ids in order, and look a global id up before a leaf is asked",
)
def layers(bench: SWABench) -> None:
    """Every global id is in one leaf, told alike by all members; every other id raises."""
    sides = ((bench.full_ids, False), (bench.window_ids, True))
    expected = {i: (n, window) for ids, window in sides for n, i in enumerate(ids)}
    told = {i: tuple(place) for i, place in bench.pool.layers_mapping.items()}
    bench.expect("layers_mapping", expected=expected, got=told)
    bench.expect("swa_layer_nums", expected=len(bench.window_ids), got=bench.pool.swa_layer_nums)
    for layer_id in bench.layer_ids:
        leaf, leaf_id = bench.place(layer_id)
        key = bench.pool.get_key_buffer(layer_id)
        if key.data_ptr() != leaf.pool.get_key_buffer(leaf_id).data_ptr():
            side = "window" if leaf is bench.window else "full"
            raise LawBroken(
                f"get_key_buffer({layer_id})",
                expected=f"layer {leaf_id} of the {side} leaf",
                got="another buffer",
            )


@law(
    "swa.geometry",
    SWAComposite,
    check="size is the full space's, size_swa the window's; each leaf keeps its own widths",
)
def geometry(bench: SWABench) -> None:
    """Both spaces have the sizes asked for, and both leaves the heads and widths."""
    pool, full, window = bench.pool, bench.whole.full, bench.whole.window
    got = (pool.size, pool.size_swa, pool.page_size, pool.full_kv_pool.size, pool.swa_kv_pool.size)
    expected = (full.size, window.size, full.page_size, full.size, window.size)
    bench.expect(
        "size, size_swa, page_size, full_kv_pool.size, swa_kv_pool.size", expected=expected, got=got
    )
    for layer_id in bench.layer_ids:
        for side in bench.sides:
            shape = (bench.slots_in(layer_id), *bench.row_shape(side, layer_id))
            found = tuple(bench.stored_raw(side, layer_id).shape)
            bench.expect(f"{side} rows of layer {layer_id}", expected=shape, got=found)


@law(
    "swa.geometry-all-window",
    SWAComposite,
    check="ask the leaf that owns a layer; a full side without one is there for form",
)
def geometry_all_window(bench: SWABench) -> None:
    """Geometry is there without naming a layer, also where no layer is full, or none a window."""
    pool = bench.pool
    bench.expect("pool.dtype", expected=bench.request.dtype, got=pool.dtype)
    owned = bench.layer_ids
    if pool.start_layer > min(owned):
        raise LawBroken(
            "pool.start_layer", expected=f"at most {min(owned)}", got=str(pool.start_layer)
        )
    end: int | None = getattr(pool, "end_layer", None)
    if end is not None and end <= max(owned):
        raise LawBroken("pool.end_layer", expected=f"more than {max(owned)}", got=str(end))
    if str(torch.device(pool.device)) != str(torch.device(bench.request.device)):
        raise LawBroken("pool.device", expected=str(bench.request.device), got=str(pool.device))


@law(
    "swa.write-full",
    SWAComposite,
    applies=has_layers,
    needs=LAYERS,
    check="rows of a full layer go to the full leaf at the full location, whatever its peer is",
)
def write_full(bench: SWABench) -> None:
    """Rows of a full layer land in the full leaf only, with and without a peer."""
    loc = [bench.mapped[1], *bench.unmapped[:1], bench.mapped[0]]
    _write_one_by_one(bench, bench.full_ids, loc)


@law(
    "swa.write-window",
    SWAComposite,
    applies=has_layers,
    needs=LAYERS,
    check="translate the locations of a window layer before its leaf is called",
)
def write_window(bench: SWABench) -> None:
    """Rows of a window layer land in the window leaf only, at their peers; without one, nowhere."""
    loc = [bench.mapped[1], *bench.unmapped[:1], bench.mapped[0]]
    _write_one_by_one(bench, bench.window_ids, loc)


@law(
    "swa.bare-loc",
    SWAComposite,
    applies=has_layers,
    needs=LAYERS,
    check="work out the window locations where the object does not carry them",
)
def bare_loc(bench: SWABench) -> None:
    """A tensor of full locations, and objects with and without the other spaces, write alike."""
    spots = bench.mapped[:2]
    loc, elsewhere = torch.tensor(spots), torch.zeros(2, dtype=torch.int64)
    peers = torch.tensor(bench.peers(spots))
    forms: dict[str, Tensor | WriteLoc] = {
        "a tensor": loc,
        "an object without swa_loc": WriteLoc(loc),
        "an object with full_loc only": WriteLoc(elsewhere, full_loc=loc),
        "an object with both": WriteLoc(loc, swa_loc=peers, full_loc=loc),
    }
    for salt, (name, form) in enumerate(forms.items()):
        for layer_id in bench.layer_ids:
            k, v = bench.pair(8, salt, layer_id)
            bench.write_form(form, k[:2], v[:2], layer_id)
        rows = bench.everywhere({at: i for i, at in enumerate(spots)})
        bench.expect_written(f"set_kv_buffer({name} for {spots}, ...)", rows, salt)


@law(
    "swa.padding",
    SWAComposite,
    applies=has_layers,
    needs=LAYERS,
    check="refresh the whole static buffer of window locations, its padded tail included",
)
def padding(bench: SWABench) -> None:
    """Padded rows resolve to slot 0 in each space, also through a buffer with an old tail."""
    spots = [*bench.mapped[:2], 0, 0]
    loc = torch.tensor(spots)
    held = torch.full((4,), bench.window.slots - 1, dtype=_translated(bench, [0]).dtype)
    held.copy_(bench.pool.translate_loc_from_full_to_swa(loc))
    bench.expect(
        f"translate_loc_from_full_to_swa({spots}) into a buffer of an earlier step",
        expected=[*bench.peers(spots[:2]), 0, 0],
        got=numbers(held),
    )
    for form in (loc, WriteLoc(loc, swa_loc=held)):
        for layer_id in bench.layer_ids:
            k, v = (rows[:4].clone() for rows in bench.pair(8, 0, layer_id))
            k[2:], v[2:] = float("nan"), float("nan")
            bench.write_form(form, k, v, layer_id)
        bench.expect_written(
            f"set_kv_buffer(loc={spots}, the last two rows padding)",
            bench.everywhere({at: i for i, at in enumerate(spots[:2])}),
        )


@law(
    "swa.move",
    SWAComposite,
    Movable,
    applies=has_layers,
    needs=LAYERS,
    check="translate targets and sources for the window leaf, and drop targets without a peer",
)
def move(bench: SWABench) -> None:
    """A move moves both sides; in the window only between peers, and never onto slot 0."""
    a, b, free = bench.mapped[0], bench.mapped[1], bench.mapped[2]
    bench.write_everywhere([a, b])
    bench.pool.move_kv_cache(torch.tensor([free, a]), torch.tensor([a, b]))
    call = f"move_kv_cache([{free}, {a}], [{a}, {b}])"
    bench.expect_written(call, bench.everywhere({free: 0, a: 1, b: 1}))
    for lone in bench.unmapped[:1]:
        bench.pool.move_kv_cache(torch.tensor([lone]), torch.tensor([free]))
        call = f"move_kv_cache([{lone}], [{free}]), of which the target has no peer"
        bench.expect_written(call, bench.everywhere({free: 0, a: 1, b: 1, lone: 0}))


@law(
    "swa.host-copy",
    SWAComposite,
    HostCopyable,
    applies=has_layers,
    needs=LAYERS,
    check="copy both leaves; remember which tokens had a window row, and look peers up again",
)
def host_copy(bench: SWABench) -> None:
    """A copy carries both sides, and restores to the peers that the tokens have then."""
    a, b, other = bench.mapped[:3]
    spots = [a, *bench.unmapped[:1], b]
    bench.write_everywhere(spots)
    where = torch.tensor(spots)
    copy = bench.pool.get_cpu_copy(where, mamba_indices=None, req_pool_index=0)
    for layer_id in bench.layer_ids:
        k, v = (torch.zeros_like(x[: len(spots)]) for x in bench.pair(8, 0, layer_id))
        bench.write(where, k, v, layer_id)
    back = [other, *bench.unmapped[1:2], a][: len(spots)] if len(spots) > 2 else [other, a]
    bench.pool.load_cpu_copy(copy, torch.tensor(back), mamba_indices=None, req_pool_index=0)
    bench.expect_written(
        f"load_cpu_copy(get_cpu_copy({spots}), {back})",
        bench.everywhere({at: i for i, at in enumerate(back)}),
    )


@law(
    "swa.transfer",
    SWAComposite,
    Transferable,
    StateTransferable,
    applies=has_layers,
    needs=LAYERS,
    check="full leaf in get_contiguous_buf_infos, window leaf in get_state_buf_infos, by its pages",
)
def transfer(bench: SWABench) -> None:
    """The full side goes by full pages, the window side by window pages; each byte goes once."""
    parts = {
        "get_contiguous_buf_infos": (bench.full, bench.full_ids),
        "get_state_buf_infos": (bench.window, bench.window_ids),
    }
    exported = {name: getattr(bench.pool, name)() for name in parts}
    _expect_apart(exported)
    for name, (leaf, ids) in parts.items():
        pages = leaf.slots // leaf.request.page_size
        _, lengths, items = exported[name]
        owned = owned_bytes(leaf.pool, leaf.slots) if ids else 0
        bench.expect(f"bytes in {name}()", expected=owned, got=sum(lengths))
        counted = [length // item for length, item in zip(lengths, items, strict=True)]
        bench.expect(f"pages in {name}()", expected=[pages] * len(lengths), got=counted)
        _expect_pages(bench, name, ids, exported[name])


@law(
    "swa.sync-free",
    SWAComposite,
    applies=has_layers,
    needs=LAYERS,
    check="torch.where and clamp in place of boolean indices, .item() and nonzero",
)
def sync_free(bench: SWABench) -> None:
    """Translating, and writing a layer of either side, has fixed shapes and never asks the host."""
    loc = torch.tensor([0, bench.mapped[0], -1, *bench.unmapped[:1]])
    told = numbers(loc)
    run_traced(
        f"translate_loc_from_full_to_swa({told})",
        lambda: bench.pool.translate_loc_from_full_to_swa(loc),
    )
    for layer_id in bench.layer_ids:
        k, v = (rows[: len(loc)].clone() for rows in bench.pair(8, 0, layer_id))
        k[0] = float("nan")
        run_traced(
            f"set_kv_buffer(layer {layer_id}, {told}, ...)",
            partial(bench.write, loc, k, v, layer_id),
        )


def _translated(bench: SWABench, loc: Sequence[int], dtype: torch.dtype = torch.int64) -> Tensor:
    found: Tensor = bench.pool.translate_loc_from_full_to_swa(torch.tensor(loc, dtype=dtype))
    return found


def _write_one_by_one(bench: SWABench, ids: Sequence[int], loc: Sequence[int]) -> None:
    written: dict[int, dict[int, int]] = {}
    for layer_id in ids:
        k, v = bench.pair(8, 0, layer_id)
        bench.write(torch.tensor(loc), k[: len(loc)], v[: len(loc)], layer_id)
        rows = bench.everywhere({at: i for i, at in enumerate(loc)})
        written[layer_id] = rows[layer_id]
        bench.expect_written(f"set_kv_buffer(layer {layer_id}, loc={list(loc)}, ...)", written)


def _expect_apart(exported: dict[str, tuple[list[int], list[int], list[int]]]) -> None:
    spans = sorted(
        (pointer, length)
        for pointers, lengths, _ in exported.values()
        for pointer, length in zip(pointers, lengths, strict=True)
    )
    for (a, length), (b, _) in pairwise(spans):
        if a + length > b:
            raise LawBroken(
                "get_contiguous_buf_infos() and get_state_buf_infos()",
                expected="no byte in two regions",
                got=f"{length} bytes at {a:#x} reach past {b:#x}",
            )


def _expect_pages(
    bench: SWABench, name: str, ids: Sequence[int], infos: tuple[list[int], list[int], list[int]]
) -> None:
    """Copy page 2's bytes over page 1: of exactly these layers, page 1 becomes as page 2 is."""
    if not ids:
        return
    page = bench.full.request.page_size
    bench.write_all_slots()
    places: list[tuple[int, Side]] = [(i, side) for i in bench.layer_ids for side in bench.sides]
    before = [bench.stored(side, i) for i, side in places]
    for pointer, _, item in zip(*infos, strict=True):
        poke(pointer + item, peek(pointer + 2 * item, item))
    for (layer_id, side), expected in zip(places, before, strict=True):
        if layer_id in ids:
            expected[page : 2 * page] = expected[2 * page : 3 * page]
        found = bench.stored(side, layer_id)
        bench.expect_same(
            f"page 2's bytes copied over page 1 of every region of {name}()",
            found,
            expected,
            f"layer {layer_id}, {side} row",
        )
