"""What the rows of each built leaf are: whose layers, how many heads, how wide, of which bytes."""

from __future__ import annotations

from math import prod

from torch import Tensor

from kvproto.protocols import (
    BufferRegion,
    Composite,
    DSALeafRequest,
    Field,
    HybridPoolRequest,
    Platform,
    SWAPoolRequest,
    SWARingPoolRequest,
    supports,
)

from ..allocated import allocation_of
from ..broken import LawBroken
from ..deployment_bench import DeploymentBench, is_built
from ..door_layouts import DoorForm
from ..law import law
from ..oracle import regions_of
from ..parts import Part
from ..planned_rows import expected_axes, expected_elements, inner_strides, layers_with
from .builder import BUILT


@law(
    "builder.layers",
    Platform,
    when=is_built,
    needs=BUILT,
    check="own the global ids start_layer .. end_layer - 1 of the request, also on later stages",
)
def layers(bench: DeploymentBench) -> None:
    """Every layer of the stage that keeps rows has them, under its global id, and no other has."""
    _expect_stage(bench)
    for part in bench.parts:
        wanted, leaf = list(part.bench.layer_ids), part.leaf
        bench.expect(
            f"start_layer, end_layer, layer_num of {part.name}",
            expected=(part.request.start_layer, part.request.end_layer, len(wanted)),
            got=(leaf.start_layer, leaf.end_layer, leaf.layer_num),
        )
        told: dict[str, list[int]] = {}
        for region in regions_of(leaf) or ():
            told.setdefault(region.fields[0].name, []).extend(region.layer_ids)
        for name, ids in told.items():
            expected = layers_with(part.request, name)
            if sorted(ids) != expected:
                call = f"layer ids of {part.name}'s regions of {name}"
                raise LawBroken(call, expected=str(expected), got=str(sorted(ids)))
        _expect_places(bench, part)


def _expect_stage(bench: DeploymentBench) -> None:
    """The plan's layers are the stage's that attend, counted from the model's config."""
    request, shape = bench.request, bench.request.shape
    stage = request.parallel.stage(request.pp_rank, len(shape.layers), shape.rows_per_layer)
    windows = shape.ids("sliding", "chunked") if request.options.window_pools else ()
    keep_none = shape.ids("linear", "state_only", "no_cache")
    attending = [i for i in stage if i not in keep_none]
    expected = [i for i in attending if i not in windows], [i for i in attending if i in windows]
    full, windowed = list[int](), list[int]()
    match bench.plan.pool:
        case SWARingPoolRequest(pair=pair) | (SWAPoolRequest() as pair):
            full += pair.full_attention_layer_ids
            windowed += pair.swa_attention_layer_ids
        case HybridPoolRequest() as asked:
            full += asked.full_attention_layer_ids
        case None:
            pass
        case asked:
            full += range(asked.start_layer, asked.end_layer)
    got = full, windowed
    bench.expect("layers of the stage, full and windowed", expected=expected, got=got)


def _expect_places(bench: DeploymentBench, part: Part) -> None:
    """The pool sends a global id to its leaf, and the leaf shows another buffer for each."""
    seen: dict[int, int] = {}
    whole = part.planned.whole
    for layer_id, leaf_id in part.places:
        if supports(whole, Composite):
            leaf, own_id = whole.leaf_for(layer_id)
            if leaf is not part.leaf or own_id != leaf_id:
                got, wanted = f"{type(leaf).__name__}, {own_id}", f"{part.name}, {leaf_id}"
                raise LawBroken(f"leaf_for({layer_id})", expected=wanted, got=got)
        if not part.bench.reads_copies and bench.request.device == "cpu":
            call, shown = part.door("key", leaf_id)
            other = seen.setdefault(shown.data_ptr(), leaf_id)
            if other != leaf_id:
                raise LawBroken(call, expected="a buffer of its own", got=f"that of layer {other}")


@law(
    "builder.geometry",
    Platform,
    when=is_built,
    needs=BUILT,
    check="heads of this rank; keys are head_dim wide, values v_head_dim; pages as asked",
)
def geometry(bench: DeploymentBench) -> None:
    """Heads, widths of keys and of values, and page size are the request's, in every layer."""
    for part in bench.parts:
        regions = regions_of(part.leaf)
        for region in regions or ():
            _expect_axes(bench, part, region)
        if regions is None:
            _expect_elements(bench, part)


def _expect_axes(bench: DeploymentBench, part: Part, region: BufferRegion) -> None:
    if not region.by_request:
        bench.expect(
            f"page_size of {part.name}'s region of {region.fields[0].name}",
            expected=_tokens_of_page(part, region),
            got=region.page_size,
        )
    for field in region.fields:
        asked = expected_axes(part.request, part.bench, field)
        got = {axis.name: axis.size for axis in field.axes if axis.name in asked}
        bench.expect(f"axes of {field.name} in {part.name}'s region", expected=asked, got=got)


def _tokens_of_page(part: Part, region: BufferRegion) -> int:
    """Tokens of a page, or the index keys that they share."""
    request = part.request
    if isinstance(request, DSALeafRequest) and region.fields[0].name == "index_key":
        return request.index_page_size
    return request.page_size


def _expect_elements(bench: DeploymentBench, part: Part) -> None:
    """Of a leaf that declares nothing: as many as its doors have to show."""
    for layer_id in part.looked_at:
        for side in part.bench.sides:
            call, shown = part.door(side, layer_id)
            form = part.bench.door_form(side, layer_id)
            if form is not None:
                bench.expect(f"elements of {call}", expected=prod(form.shape), got=shown.numel())


@law(
    "builder.layout",
    Platform,
    when=is_built,
    needs=(*BUILT, "builder.slots", "builder.geometry"),
    check="build the layout that was asked for and is declared, or decline it",
)
def layout(bench: DeploymentBench) -> None:
    """Rows lie in memory as the layout asked for says: by the strides of doors and of regions."""
    for part in bench.parts:
        for layer_id in part.looked_at:
            for side in part.bench.sides:
                form = part.bench.door_form(side, layer_id)
                if form is not None:
                    _expect_form(*part.door(side, layer_id), form)
        for region in regions_of(part.leaf) or ():
            for field in region.fields:
                _expect_strides(part, region, field)


def _expect_form(call: str, shown: Tensor, form: DoorForm) -> None:
    """The layout's own shape, in which no axis behind that of slots or pages skips an element."""
    if tuple(shown.shape) != form.shape:
        wanted = f"{form.layout} {form.rows.side}s of shape {form.shape}"
        raise LawBroken(call, expected=wanted, got=f"shape {tuple(shown.shape)}")
    dense = [1]
    for size in reversed(form.shape[2:]):
        dense.insert(0, dense[0] * size)
    pairs = zip(shown.stride()[1:], dense, form.shape[1:], strict=True)
    apart = shown.stride()[0] >= dense[0] * form.shape[1] or form.shape[0] == 1
    if not apart or any(got != wanted for got, wanted, size in pairs if size > 1):
        wanted = f"{form.layout}: {tuple(dense)} behind the first axis, which is the widest"
        raise LawBroken(f"strides of {call}", expected=wanted, got=str(shown.stride()))


def _expect_strides(part: Part, region: BufferRegion, field: Field) -> None:
    own = region.in_layer(region.layer_ids[0], field)
    for name, expected in inner_strides(part.request, field, part.bench).items():
        axis = next((axis for axis in own.axes if axis.name == name), None)
        if axis is None or axis.size < 2:
            continue
        # Every power of two, and the last: a step of each level of blocks that hardware has.
        for i in (*(1 << level for level in range(axis.size.bit_length() - 1)), axis.size - 1):
            if axis.offset(i) != expected(i):
                raise LawBroken(
                    f"{name} {i} of {field.name} in {part.name}'s region",
                    expected=f"{part.request.layout}: {expected(i)} bytes from {name} 0",
                    got=f"{axis.offset(i)}",
                )


@law(
    "builder.dtype",
    Platform,
    when=is_built,
    needs=BUILT,
    check="store the element the request names; scales in the scheme's own type",
)
def dtype(bench: DeploymentBench) -> None:
    """Elements, and the scales beside them, are of the types the request names for its scheme."""
    for part in bench.parts:
        bench.expect(f"dtype of {part.name}", expected=part.request.dtype, got=part.leaf.dtype)
        for layer_id in part.looked_at:
            for side in part.bench.sides:
                call, shown = part.door(side, layer_id)
                bench.expect(f"dtype of {call}", expected=part.bench.read_dtype, got=shown.dtype)
        for region in regions_of(part.leaf) or ():
            for field in region.fields:
                legal = expected_elements(part.request, field.name)
                if field.name != "padding" and field.element not in legal:
                    call = f"element of {field.name} in {part.name}'s region"
                    raise LawBroken(call, expected=" or ".join(legal), got=field.element)


@law(
    "builder.device",
    Platform,
    when=is_built,
    needs=BUILT,
    check="build on request.device; capabilities.device_type is what `tensor.device.type` says",
)
def device(bench: DeploymentBench) -> None:
    """Every tensor is on the device asked for, and the platform names the type of its own."""
    told = bench.pool.watched.platform.capabilities.device_type
    # torch learns the name of a vendor's type when the vendor's package is imported, not before.
    if not (told.isidentifier() and told.islower()):
        raise LawBroken("capabilities.device_type", expected="a type, as 'cuda'", got=told)
    for part in bench.parts:
        for where in sorted(allocation_of(part.leaf, part.least_elements).devices):
            call = f"device of {part.name}'s tensors"
            bench.expect(call, expected=bench.request.device, got=where)
