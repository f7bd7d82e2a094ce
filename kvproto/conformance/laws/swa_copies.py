"""A window pair copied to the host or to a peer: both sides go, each byte once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch

from kvproto.protocols import (
    HostCopyable,
    StateTransferable,
    SWAComposite,
    Transferable,
)

from ..broken import LawBroken
from ..composite_bench import SWABench
from ..kv_bench import Side
from ..law import has_layers, law
from ..oracle import peek, poke
from ..storage import kept_bytes
from .swa import LAYERS
from .transfer import by_page


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
    full = by_page(bench.pool)
    pointers, lengths, items = ([entry[column] for entry in full] for column in range(3))
    exported: dict[str, tuple[list[int], list[int], list[int]]] = {
        "get_contiguous_buf_infos": (pointers, lengths, items),
        "get_state_buf_infos": bench.pool.get_state_buf_infos(),
    }
    _expect_apart(exported)
    for name, (leaf, ids) in parts.items():
        pages = leaf.slots // leaf.request.page_size
        _, lengths, items = exported[name]
        owned = kept_bytes(leaf.pool, leaf.slots) if ids else 0
        bench.expect(f"bytes in {name}()", expected=owned, got=sum(lengths))
        counted = [length // item for length, item in zip(lengths, items, strict=True)]
        bench.expect(f"pages in {name}()", expected=[pages] * len(lengths), got=counted)
        _expect_pages(bench, name, ids, exported[name])


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
