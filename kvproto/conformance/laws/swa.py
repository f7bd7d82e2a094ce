"""A window pair: which space a location is in, and which leaf a layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.protocols import (
    SWAComposite,
)

from ..broken import LawBroken
from ..composite_bench import SWABench, numbers
from ..law import law

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
        found = translated(bench, asked, dtype)
        bench.expect(
            f"translate_loc_from_full_to_swa({asked} {dtype})",
            expected=str(bench.peers(asked)),
            got=str(numbers(found)),
        )
        for negative in (-1, -2, -bench.slots):
            got = numbers(translated(bench, [negative, some[0]], dtype))
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
    "swa.mapping-unset",
    SWAComposite,
    check="assign None in the constructor, where the allocator finds the member",
)
def mapping_unset(bench: SWABench) -> None:
    """The member is there from the start, and None until an allocator registers its table."""
    got = bench.another().full_to_swa_index_mapping
    if got is not None:
        raise LawBroken("full_to_swa_index_mapping", expected="None", got=f"{type(got).__name__}")


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
    got = numbers(translated(bench, [taken, given]))
    bench.expect(
        "translate_loc_from_full_to_swa after the allocator wrote to its table",
        expected=[0, int(bench.table[taken])],
        got=got,
    )
    held = bench.pool.full_to_swa_index_mapping
    live = bench.live[: bench.slots].cpu()
    if held is not None and not torch.equal(held.cpu()[: bench.slots], live):
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
        if not bench.shows_leaf(layer_id):
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


def translated(bench: SWABench, loc: Sequence[int], dtype: torch.dtype = torch.int64) -> Tensor:
    found: Tensor = bench.pool.translate_loc_from_full_to_swa(torch.tensor(loc, dtype=dtype))
    return found
