"""A window pair: each row lands in its own leaf, at its own location."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import (
    Movable,
    SWAComposite,
)

from ..composite_bench import SWABench, numbers
from ..kv_bench import WriteLoc
from ..law import has_layers, law
from .swa import LAYERS, translated
from .sync_free import run_traced


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
    held = torch.full((4,), bench.window.slots - 1, dtype=translated(bench, [0]).dtype)
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


def _write_one_by_one(bench: SWABench, ids: Sequence[int], loc: Sequence[int]) -> None:
    written: dict[int, dict[int, int]] = {}
    for layer_id in ids:
        k, v = bench.pair(8, 0, layer_id)
        bench.write(torch.tensor(loc), k[: len(loc)], v[: len(loc)], layer_id)
        rows = bench.everywhere({at: i for i, at in enumerate(loc)})
        written[layer_id] = rows[layer_id]
        bench.expect_written(f"set_kv_buffer(layer {layer_id}, loc={list(loc)}, ...)", written)
