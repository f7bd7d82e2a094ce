"""What every pool's doors owe to attention: rows go where they are sent and nowhere else."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import KVLeaf, KVPool

from ..broken import LawBroken
from ..kv_bench import KVBench, LayerStub, Side, WriteLoc, has_heads
from ..law import has_layers, law

OWNED = ("leaf.layers-owned",)
UNCHECKED = "kernels of a device are asked for no check of locations"
INDEX_DTYPES = (torch.int32, torch.int64)


@law(
    "leaf.layers-owned",
    KVPool,
    check="subtract start_layer from the global id before indexing the list of buffers",
)
def layers_owned(bench: KVBench) -> None:
    """Every owned global layer id answers with a buffer of its own."""
    owned = bench.layer_ids
    buffers: dict[int, torch.Tensor] = {}
    for layer_id in owned:
        try:
            buffers[layer_id] = bench.pool.get_key_buffer(layer_id)
        except (IndexError, KeyError, ValueError) as error:
            raise LawBroken(
                f"get_key_buffer({layer_id}) with start_layer={bench.pool.start_layer}",
                expected="the buffer of an owned layer",
                got=f"{type(error).__name__}: {error}",
            ) from error
    pointers = {layer_id: buffer.data_ptr() for layer_id, buffer in buffers.items()}
    if len(set(pointers.values())) != len(owned):
        raise LawBroken("get_key_buffer", expected="one buffer a layer", got=f"shared: {pointers}")


@law(
    "leaf.layers-foreign",
    KVPool,
    check="compare the id with start_layer and end_layer: buffer[layer_id - start_layer] wraps",
)
def layers_foreign(bench: KVBench) -> None:
    """Every layer id that is not owned raises, instead of answering with another layer."""
    for layer_id in bench.foreign_layer_ids:
        for door in bench.read_doors:
            bench.expect_raises(
                f"{door}({layer_id}) on a pool of layers {list(bench.layer_ids)}",
                partial(getattr(bench.pool, door), layer_id),
                ValueError,
                IndexError,
                KeyError,
            )


@law(
    "leaf.write-read",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="the row a location maps to, in every layer; K and V may have different widths",
)
def write_read(bench: KVBench) -> None:
    """A row written to a location is found there, in its layer, and nothing else changes."""
    last = bench.slots - 1
    for layer_id in bench.layer_ids:
        k, v = bench.pair(3, salt=layer_id, layer_id=layer_id)
        loc = torch.tensor([last, 1, last - 1])
        bench.write(loc, k, v, layer_id)
    for layer_id in bench.layer_ids:
        k, v = bench.pair(3, salt=layer_id, layer_id=layer_id)
        call = f"set_kv_buffer(layer {layer_id}, loc=[{last}, 1, {last - 1}], ...)"
        for side, rows in zip(bench.sides, (k, v), strict=False):
            bench.expect_rows(call, side, {last: rows[0], 1: rows[1], last - 1: rows[2]}, layer_id)


@law(
    "leaf.read-doors",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="the view the door returns: its dtype, its first row, its layer, the layout's own shape",
)
def read_doors(bench: KVBench) -> None:
    """The read doors show what is stored, in the pool's dtype and layout, and agree."""
    loc = torch.tensor([1, bench.slots - 1])
    layer_id = bench.layer_ids[-1]
    k, v = bench.pair(2, layer_id=layer_id)
    bench.write(loc, k, v, layer_id)
    doors: tuple[tuple[str, Side], ...] = (("get_key_buffer", "key"), ("get_value_buffer", "value"))
    for (name, side), of_pair in zip(doors, bench.door_pair(layer_id), strict=False):
        single: Tensor = getattr(bench.pool, name)(layer_id)
        if single.dtype != bench.read_dtype:
            raise LawBroken(name, expected=f"{bench.read_dtype}", got=f"{single.dtype}")
        same = bench.reads_copies or single.data_ptr() == of_pair.data_ptr()
        if not same or single.shape != of_pair.shape:
            raise LawBroken("get_kv_buffer", expected=f"the tensor of {name}", got="another one")
        form = bench.door_form(side, layer_id)
        if form is None or side not in bench.shown_sides:
            continue
        call = f"{name}({layer_id})"
        shown = form.by_slot(call, single)
        shown, stored = bench.as_shown(shown, side, layer_id)
        bench.expect_same("get_kv_buffer", of_pair.float(), single.float(), side)
        bench.expect_same(call, shown, stored, f"{side} row")


@law(
    "leaf.slot-zero",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="mask rows whose location is 0 in every writer; `buffer[loc] = rows` has no such mask",
)
def slot_zero(bench: KVBench) -> None:
    """The reserved slot stays zero, whatever padded rows aim at it, NaN and infinity included."""
    for dtype in INDEX_DTYPES:
        k, v = bench.pair(4)
        for rows in (k, v):
            rows[0], rows[2], rows[3] = float("nan"), float("inf"), float("nan")
        bench.write(torch.tensor([0, 3, 0, 0], dtype=dtype), k, v)
        for side, rows in zip(bench.sides, (k, v), strict=False):
            bench.expect_rows(
                f"set_kv_buffer(loc=[0, 3, 0, 0] {dtype}, rows 0, 2 and 3 not finite)",
                side,
                {3: rows[1]},
            )


@law(
    "leaf.negative-loc",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="drop negative locations before indexing: Python and torch wrap -1 to the last row",
)
def negative_loc(bench: KVBench) -> None:
    """A negative location means no write: it is dropped and never wraps to the end."""
    k, v = bench.pair(2)
    for locations in ([-1, 2], [-bench.slots, -3], [-212, -1]):
        for dtype in INDEX_DTYPES:
            bench.write(torch.tensor(locations, dtype=dtype), k, v)
            for side, rows in zip(bench.sides, (k, v), strict=False):
                call = f"set_kv_buffer(loc={locations} {dtype}, ...)"
                bench.expect_rows(call, side, {2: rows[1]})


@law(
    "leaf.out-of-range",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    host_only=UNCHECKED,
    check="check the largest location before the first row is written",
)
def out_of_range(bench: KVBench) -> None:
    """On the CPU a location past the last row raises and leaves every row as it was."""
    k, v = bench.pair(2)
    loc = torch.tensor([1, bench.slots])
    call = f"set_kv_buffer(loc=[1, {bench.slots}], ...) on {bench.slots} rows"
    bench.expect_raises(call, lambda: bench.write(loc, k, v), IndexError, ValueError)
    for side in bench.sides:
        bench.expect_rows(call, side, {})


@law(
    "leaf.empty-and-duplicates",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="early return on n == 0; one indexed copy per buffer, not element-wise scatter",
)
def empty_and_duplicates(bench: KVBench) -> None:
    """No locations is no change; of rows with the same location one is stored whole."""
    k, v = bench.pair(3)
    bench.write(torch.empty(0, dtype=torch.int64), k[:0], v[:0])
    for side in bench.sides:
        bench.expect_rows("set_kv_buffer(loc=[])", side, {})
    bench.write(torch.tensor([2, 2, 2]), k, v)
    for side, rows in zip(bench.sides, (k, v), strict=False):
        row = bench.stored(side)[bench.slot_of(2)]
        if not any(torch.equal(row, rows[i].float()) for i in range(3)):
            raise LawBroken(
                "set_kv_buffer(loc=[2, 2, 2], ...)", expected="one of the rows whole", got=str(row)
            )


@law(
    "leaf.strided-input",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="reshape instead of view; pass strides to the kernel, or make the rows contiguous",
)
def strided_input(bench: KVBench) -> None:
    """Strided, transposed and expanded inputs store the same as contiguous copies of them."""
    n = 4
    k, v = bench.pair(n)
    fused = torch.cat([k.flatten(1), v.flatten(1)], dim=1)
    width = k[0].numel()
    sliced = fused[:, :width].view(k.shape), fused[:, width:].view(v.shape)
    transposed = tuple(x.transpose(0, 1).contiguous().transpose(0, 1) for x in (k, v))
    expanded = tuple(x[:1].expand(n, -1, -1) for x in (k, v))
    loc = torch.tensor([1, 9, 2, 9, 3, 9, 4, 9])[::2]
    for name, (a, b) in {"slices": sliced, "transposed": transposed, "expanded": expanded}.items():
        bench.write(loc, a, b)
        for side, rows in zip(bench.sides, (a, b), strict=False):
            bench.expect_rows(
                f"set_kv_buffer(strided loc, {name} of one tensor)",
                side,
                {i + 1: rows[i].clone() for i in range(n)},
            )


@law(
    "leaf.input-unmodified",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="divide by the scale out of place: div_ changes the caller's activations",
)
def input_unmodified(bench: KVBench) -> None:
    """The caller's tensors are the same after a write, also when they are written twice."""
    k, v = bench.pair(2)
    loc = torch.tensor([1, 2])
    before = (loc.clone(), k.clone(), v.clone())
    bench.write(loc, k, v)
    bench.write(loc, k, v)
    for name, was, now in zip(("loc", "cache_k", "cache_v"), before, (loc, k, v), strict=True):
        if not torch.equal(was, now):
            raise LawBroken("set_kv_buffer", expected=f"{name} unchanged", got="another value")


@law(
    "leaf.row-width",
    KVPool,
    applies=lambda r: has_layers(r) and has_heads(r),
    needs=OWNED,
    check="v_head_dim: allocate V with it and compare shapes before the first write",
)
def row_width(bench: KVBench) -> None:
    """Keys and values have their own widths; rows of another width raise and change nothing."""
    k, v = bench.pair(2)
    loc = torch.tensor([1, 2])
    heads, width = bench.row_shape("value")
    wide = torch.ones(2, heads, width + 1, dtype=v.dtype)
    call = f"set_kv_buffer(cache_v of width {width + 1} into {width})"
    bench.expect_raises(
        call, lambda: bench.write(loc, k, wide), ValueError, RuntimeError, IndexError
    )
    for side in bench.sides:
        bench.expect_rows(call, side, {})


@law(
    "leaf.geometry",
    KVLeaf,
    check="size without the reserved page; end_layer exclusive; v_head_dim None is head_dim",
)
def geometry(bench: KVBench) -> None:
    """A leaf reports the geometry it was asked for, without a layer being named."""
    request = bench.request
    expected = {
        "size": request.size,
        "page_size": request.page_size,
        "dtype": request.dtype,
        "layer_num": request.layer_num,
        "start_layer": request.start_layer,
        "end_layer": request.end_layer,
    }
    for name, value in expected.items():
        got = getattr(bench.pool, name)
        if got != value:
            raise LawBroken(f"pool.{name}", expected=str(value), got=str(got))


@law(
    "leaf.write-location-object",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="take `.loc` of the object backends pass in place of a tensor",
)
def write_location_object(bench: KVBench) -> None:
    """A write accepts the object that bundles a batch's locations, and uses its `loc`."""
    k, v = bench.pair(2)
    loc = torch.tensor([2, 1])
    bench.pool.set_kv_buffer(LayerStub(bench.layer_ids[0]), WriteLoc(loc), k, v)
    for side, rows in zip(bench.sides, (k, v), strict=False):
        bench.expect_rows(
            "set_kv_buffer(WriteLoc(loc=[2, 1]), ...)", side, {2: rows[0], 1: rows[1]}
        )


@law(
    "leaf.layer-transfer-wait",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="wait in every read door, with the layer's index within the stage",
)
def layer_transfer_wait(bench: KVBench) -> None:
    """Once a transfer counter is registered, read doors wait for the layer they hand out."""
    waited: list[int] = []

    class Counter:
        def wait_until(self, threshold: int, /) -> None:
            waited.append(threshold)

    bench.pool.register_layer_transfer_counter(Counter())
    for layer_id in bench.layer_ids:
        local = layer_id - bench.pool.start_layer
        for door in bench.read_doors:
            waited.clear()
            getattr(bench.pool, door)(layer_id)
            if not waited or set(waited) != {local}:
                raise LawBroken(
                    f"{door}({layer_id}) with a counter registered",
                    expected=f"a wait for layer {local} of the stage",
                    got=f"waits: {waited or 'none'}",
                )
