"""How large what is built is: as planned, as declared, as really allocated, as lent out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kvproto.protocols import (
    DSALeafRequest,
    Platform,
    SWAAllocatorRequest,
    SWAPoolRequest,
    bytes_of_pool,
    bytes_of_state,
)

from ..allocated import Allocation, allocation_of, declared_bytes, stray_region
from ..broken import LawBroken
from ..composite_bench import numbers
from ..deployment_bench import DeploymentBench, is_built, on_cpu
from ..law import law
from ..oracle import regions_of
from ..parts import Part
from ..planned_rows import rows_to_a_slot
from ..state_bench import named_tensors
from .builder import BUILT


@law(
    "builder.bytes",
    Platform,
    when=is_built,
    needs=BUILT,
    check="allocate `size + page_size` slots of what the request names, once, and nothing else",
)
def allocated_bytes(bench: DeploymentBench) -> None:
    """The bytes a plan predicts are those of the declared regions and those really allocated."""
    whole = Allocation(())
    for part in bench.parts:
        whole |= _part_bytes(bench, part)
    if bench.state is not None:
        taken = Allocation(named_tensors(bench.state.pool.mamba_cache).values())
        bench.expect(
            "bytes of the state's tensors",
            expected=bytes_of_state(bench.state.request),
            got=taken.nbytes,
        )
        whole |= taken
    bench.expect("bytes of all storages", expected=bench.plan.allocated_bytes, got=whole.nbytes)


def _part_bytes(bench: DeploymentBench, part: Part) -> Allocation:
    taken, predicted = allocation_of(part.leaf, part.least_elements), bytes_of_pool(part.request)
    declared = declared_bytes(part.leaf)
    bench.expect(f"bytes of {part.name}'s tensors", expected=predicted, got=taken.nbytes)
    if declared is not None:
        bench.expect(f"bytes of {part.name}'s regions", expected=predicted, got=declared)
        stray = stray_region(regions_of(part.leaf) or (), taken)
        if stray and bench.request.device == "cpu":  # on `meta` nothing has an address
            call = f"buffer_regions() of {part.name}"
            raise LawBroken(call, expected="regions in the leaf's own storages", got=stray)
    return taken


@law(
    "builder.slots",
    Platform,
    when=is_built,
    needs=BUILT,
    check="size each part for its own tokens: of a pair the full and the window tokens differ",
)
def slots(bench: DeploymentBench) -> None:
    """Each leaf has a row for every token planned for its part, and the reserved page, no more."""
    for part in bench.parts:
        tokens, page = part.planned.tokens, part.request.page_size
        for call, got, expected in _rows(part):
            if got != expected:
                planned = f"{expected}, for {tokens} tokens in pages of {page}"
                raise LawBroken(call, expected=planned, got=str(got))


def _rows(part: Part) -> Iterator[tuple[str, int, int]]:
    """Rows by what is declared; of a leaf that declares nothing, by what read doors show.

    With how many there have to be: index keys may be those of ids, and of several ranks' tokens.
    """
    request, regions, tokens = part.request, regions_of(part.leaf), part.planned.tokens
    expected = tokens + request.page_size
    for region in regions or ():
        names = "/".join(field.name for field in region.fields)
        call = f"rows in {part.name}'s region of {names}"
        if isinstance(request, DSALeafRequest) and region.fields[0].name == "index_key":
            keyed = tokens * request.host_to_device_ratio + request.page_size
            got = region.page_count * region.page_size * request.index_kpool
            yield call, got, keyed * request.index_spans
        elif not region.by_request:
            more = rows_to_a_slot(request, region.fields[0].name, region.layer_ids)
            got = region.page_count * request.page_size
            yield call, got, tokens * more + request.page_size
    if regions is None:
        for layer_id in part.looked_at:
            for side in part.bench.sides:
                form = part.bench.door_form(side, layer_id)
                if form is not None:
                    call, shown = part.door(side, layer_id)
                    row = form.rows.heads * form.rows.width
                    yield f"rows of {call}", shown.numel() // row, expected


@law(
    "builder.spaces",
    Platform,
    applies=on_cpu,
    when=is_built,
    needs=BUILT,
    check="give the allocator the tokens of the plan, and each pool as many; slot 0 is nobody's",
)
def spaces(bench: DeploymentBench) -> None:
    """All planned tokens can be lent, each once, and every slot lent is a row of every leaf."""
    allocator, page = bench.built.allocator, bench.plan.allocator.page_size
    ranks = bench.request.parallel.dcp_size
    lendable = _lendable(bench) * ranks
    if isinstance(bench.plan.allocator, SWAAllocatorRequest):
        pair: Any = allocator
        planned = bench.plan.tokens.capacity, bench.plan.tokens.window
        got = pair.size_full, pair.size_swa
        bench.expect("size_full, size_swa of the allocator", expected=planned, got=got)
    bench.expect("available_size()", expected=lendable, got=allocator.available_size())
    lent = allocator.alloc(lendable)
    try:
        if lent is None:
            raise LawBroken(f"alloc({lendable})", expected="as many slots", got="None")
        _expect_rows(bench, lent, lendable, page, ranks)
    finally:
        allocator.clear()


def _lendable(bench: DeploymentBench) -> int:
    """Tokens that can be lent at once: rings are there already, a window peer goes with a slot.

    The pool decides whether slots have peers: a plan without any would lend slots that have none.
    """
    tokens = bench.plan.tokens
    if not isinstance(bench.plan.pool, SWAPoolRequest):
        return tokens.capacity
    return min(tokens.capacity, tokens.window)


def _expect_rows(
    bench: DeploymentBench, lent: torch.Tensor, lendable: int, page: int, ranks: int
) -> None:
    full = numbers(lent)
    bench.expect(f"slots of alloc({lendable})", expected=lendable, got=len(set(full)))
    if min(full) < page:
        raise LawBroken(f"alloc({lendable})", expected=f"no slot below {page}", got=str(min(full)))
    for part in bench.parts:
        if part.places:  # a leaf without layers is there for form
            _expect_rows_of(bench, part, lent, ranks)


def _expect_rows_of(bench: DeploymentBench, part: Part, lent: torch.Tensor, ranks: int) -> None:
    """Every slot, or its peer in the window space, is a row of the leaf; rings are of no token."""
    planned, taken = part.planned, numbers(lent)
    rows = (planned.tokens + part.request.page_size) * (1 if planned.drafts else ranks)
    if planned.space == "rings":
        return
    if planned.space == "window":
        taken = numbers(planned.whole.translate_loc_from_full_to_swa(lent))
        bench.expect("window peers of all slots", expected=len(lent), got=len(set(taken) - {0}))
    if max(taken) >= rows:
        call = f"the largest slot for {part.name}"
        raise LawBroken(call, expected=f"below its {rows} rows", got=str(max(taken)))
