"""What is built is used: a token through the pool, a slot of state, a row of the table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.protocols import HybridComposite, IndexKeyRows, Platform, StateRequestPool, supports

from ..broken import LawBroken
from ..deployment_bench import DeploymentBench, is_built, on_cpu
from ..kv_bench import LayerStub, WriteLoc
from ..latent_bench import LatentBench
from ..law import law
from ..parts import Part
from ..state_bench import StateBench
from ..stored_rows import Side
from .builder import BUILT


def has_state(bench: object, /) -> bool:
    """For laws about recurrent state."""
    return isinstance(bench, DeploymentBench) and is_built(bench) and bench.plan.state is not None


@law(
    "builder.write-read",
    Platform,
    applies=on_cpu,
    when=is_built,
    needs=(*BUILT, "builder.layers", "builder.slots", "builder.geometry", "builder.layout"),
    check="write to the layer's leaf at the token's own slot, and show it at the read door",
)
def write_read(bench: DeploymentBench) -> None:
    """A token written through what was built is at its slot of its layer, and at the read door."""
    some = max(bench.plan.allocator.page_size, 2)
    lent = bench.built.allocator.alloc(some)
    try:
        if lent is None:
            raise LawBroken(f"alloc({some})", expected="slots", got="None")
        for part in bench.parts:
            where = _place(bench, part, lent[-1:])
            for layer_id, leaf_id in _ends(part.places):
                _write_one(bench, part, (layer_id, leaf_id), where)
                _write_key(bench, part, (layer_id, leaf_id), lent[-1:])
    finally:
        bench.built.allocator.clear()


def _ends(places: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The first and the last layer: what lies between is held to its place by other laws."""
    return places if len(places) < 3 else [places[0], places[-1]]


def _place(bench: DeploymentBench, part: Part, slot: Tensor) -> tuple[Tensor | WriteLoc, int]:
    """What a caller writes a lent slot with, and the row that it is in the part.

    Ranks that split tokens have their share of each page; a ring is found by its request's row.
    """
    planned, ranks = part.planned, bench.request.parallel.dcp_size
    loc = slot if planned.drafts else slot // ranks
    if planned.space == "rings":
        in_ring = torch.tensor([planned.whole.swa_req_ring_size + 1])
        return WriteLoc(loc, swa_loc=in_ring), int(in_ring)
    if planned.space == "window":
        return loc, int(planned.whole.translate_loc_from_full_to_swa(loc))
    return loc, int(loc)


def _write_one(
    bench: DeploymentBench,
    part: Part,
    place: tuple[int, int],
    where: tuple[Tensor | WriteLoc, int],
) -> None:
    (layer_id, leaf_id), (loc, row) = place, where
    given = part.bench.pair(1, layer_id, leaf_id)
    part.planned.whole.set_kv_buffer(LayerStub(layer_id), loc, *given)
    found: dict[Side, Tensor] = {}
    for side, rows in zip(part.bench.sides, given, strict=False):
        call = f"set_kv_buffer(layer {layer_id}, slot {row}) into {part.name}"
        found[side] = part.bench.oracle.row(side, leaf_id, row).float()
        bench.expect_same(call, found[side], rows[0].float(), f"{side} row {row}, head")
    for side in part.bench.shown_sides:
        _expect_shown(bench, part, side, place, part.bench.shown_row(side, found), row)


def _write_key(bench: DeploymentBench, part: Part, place: tuple[int, int], slot: Tensor) -> None:
    """The same of an index key, where there is one to every token."""
    keyed, (layer_id, leaf_id), planned = part.bench, place, part.planned
    if not isinstance(keyed, LatentBench) or leaf_id not in keyed.index_layers:
        return
    if keyed.index_head_dim == 0 or keyed.index_kpool > 1 or not _one_key_a_row(bench):
        return
    keys, scales = keyed.index_rows(1, layer_id)
    if isinstance(part.leaf, IndexKeyRows):
        keyed.write_index(slot, keys, scales, leaf_id)
    else:
        planned.whole.set_index_k_scale_buffer(layer_id, slot, keys, scales)
    key, scale = keyed.oracle.index_at(leaf_id, int(slot))
    call = f"{keyed.index_writer}({layer_id}, slot {int(slot)}) into {part.name}"
    got, wanted = key.view(torch.uint8), keys[0].view(torch.uint8)
    bench.expect_same(call, got.float()[None], wanted.float()[None], "bytes of key")
    bench.expect(f"{call}: its scale", expected=float(scales[0]), got=scale)


def _one_key_a_row(bench: DeploymentBench) -> bool:
    """Whether index keys are at the slots of rows: no rank has others', and no host has any."""
    ratio = bench.request.options.host_to_device_ratio
    return bench.request.parallel.dcp_size == 1 and ratio is None


def _expect_shown(
    bench: DeploymentBench,
    part: Part,
    side: Side,
    place: tuple[int, int],
    stored: Tensor,
    row: int,
) -> None:
    """The pool's own door shows of the layer what is stored there."""
    (layer_id, leaf_id), whole = place, part.planned.whole
    form = part.bench.door_form(side, leaf_id)
    if form is None or part.bench.reads_copies or not _shows_rows(part):
        return
    shown = whole.get_key_buffer(layer_id) if side == "key" else whole.get_value_buffer(layer_id)
    call = f"get_{side}_buffer({layer_id})"
    bench.expect_same(call, form.row(call, shown, row).float(), stored, f"{side} row {row}, head")


def _shows_rows(part: Part) -> bool:
    """Whether a read door shows numbers, not elements that mean nothing without their scales."""
    return part.request.quant_scheme in ("none", "fp8_scaled")


@law(
    "builder.state",
    Platform,
    when=has_state,
    needs=BUILT,
    check="state of the stage's recurrent layers, in the planned shapes, dtypes and slots",
)
def state(bench: DeploymentBench) -> None:
    """Recurrent state is as planned: layers, shapes, element types, and slots beside slot 0."""
    beside = bench.state
    assert beside is not None  # `has_state`
    asked, pool = beside.request, beside.pool
    if supports(bench.built.pool, HybridComposite):
        same = bench.built.pool.mamba_pool is pool
        bench.expect("the hybrid's mamba_pool is the state", expected=True, got=same)
    ids = tuple(i for i in bench.request.shape.state_layer_ids if i in range(*bench.plan.layers))
    bench.expect("mamba_layer_ids", expected=ids, got=tuple(pool.mamba_layer_ids))
    bench.expect("size of the state", expected=asked.size, got=pool.size)
    shapes = [(beside.layers, beside.slots, *shape) for shape in beside.shapes]
    got = [tuple(t.shape) for t in beside.tensors().values()]
    bench.expect("shapes of the state's tensors", expected=sorted(shapes), got=sorted(got))
    kinds = [str(asked.conv_dtype)] * len(asked.conv_state_shape)
    kinds += [str(asked.ssm_dtype)] if 0 not in asked.temporal_state_shape else []
    found = [str(t.dtype) for t in beside.tensors().values()]
    bench.expect("dtypes of the state's tensors", expected=sorted(kinds), got=sorted(found))
    if bench.request.device == "cpu":
        _expect_slot(beside)


def _expect_slot(beside: StateBench) -> None:
    """What a kernel writes to a slot is in the bytes declared for it."""
    last = beside.slots - 1
    beside.fill(last, 3.0)
    if not all(any(data) for data in beside.bytes_of(last)):
        raise LawBroken(f"slot {last} of the state", expected="what was written", got="zeros")
    beside.fill(last, 0.0)


@law(
    "builder.table",
    Platform,
    when=is_built,
    needs=BUILT,
    check="rows for running requests, for those to come and for padding; state slots of this pool",
)
def table(bench: DeploymentBench) -> None:
    """The request table has the planned rows and columns, and lends slots of the state built."""
    asked, pool = bench.plan.request_pool, bench.built.request_pool
    rows = asked.size + asked.pre_alloc_size + 1
    bench.expect(
        "shape of req_to_token",
        expected=(rows, asked.max_context_len),
        got=tuple(pool.req_to_token.shape),
    )
    bench.expect(
        "size, pre_alloc_size, available_size()",
        expected=(asked.size, asked.pre_alloc_size, rows - 1),
        got=(pool.size, pool.pre_alloc_size, pool.available_size()),
    )
    if bench.plan.state is not None:
        same = supports(pool, StateRequestPool) and pool.mamba_pool is bench.built.state
        bench.expect("the table's mamba_pool is the state", expected=True, got=same)
