"""The eyes a vendor lends to the kit: its `peek` and `poke` are held to account like regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor

from kvproto.protocols import DeclaresRegions, KVLeaf

from ..block_codec import is_block_scaled
from ..broken import LawBroken
from ..capabilities import advertised_methods
from ..kv_bench import KVBench, LayerStub
from ..latent_bench import LatentBench
from ..law import has_layers, law
from ..not_asked import NotAsked
from ..row_access import RowAccess, RowPart
from ..storage import storage_bytes
from ..stored_rows import in_meaning
from .leaf import OWNED

Place = tuple[RowPart, int, int]


def _offered(bench: KVBench) -> bool:
    lent = bench.oracle.row_access is not None and bench.oracle.pool is bench.pool
    return lent and not is_block_scaled(bench.request)  # whose rows are of no one dtype


@law(
    "oracle.poke-peek",
    KVLeaf,
    applies=has_layers,
    when=_offered,
    needs=OWNED,
    check="address one slot of one layer in both; give the elements as they are stored",
)
def poke_peek(bench: KVBench) -> None:
    """What is poked is peeked at that place, bit for bit, and no other byte changes."""
    access = _access(bench)
    for place in _places(bench):
        call, row = _called("poke", place), _sample(bench, place)
        around = {slot: _peek(bench, place[:2], slot) for slot in _beside(bench, place[2])}
        before = storage_bytes(bench.pool, bench.slots)
        access.poke(bench.pool, *place, row)
        _expect_row(bench, f"peek after {call}", _peek(bench, place[:2], place[2]), row)
        after = storage_bytes(bench.pool, bench.slots)
        changed = sum(int((after[at] != data).sum()) for at, data in before.items())
        if changed > row.nbytes:
            raise LawBroken(
                call, expected=f"at most {row.nbytes} bytes changed", got=f"{changed} bytes"
            )
        for slot, was in around.items():
            _expect_row(
                bench, f"peek at slot {slot} after {call}", _peek(bench, place[:2], slot), was
            )


@law(
    "oracle.poke-read",
    KVLeaf,
    applies=has_layers,
    when=_offered,
    needs=("oracle.poke-peek",),
    check="write to the pool's own storage, at the slot and layer that were named",
)
def poke_read(bench: KVBench) -> None:
    """A row or an index key that is poked is what the read doors then show."""
    access, compared = _access(bench), 0
    for place in _places(bench):
        row = _sample(bench, place)
        access.poke(bench.pool, *place, row)
        shown = _shown(bench, place)
        if shown is not None:
            compared += 1
            expected = in_meaning(bench.pool, "key", row) if place[0] == "key" else row
            call = f"the read door after {_called('poke', place)}"
            bench.expect_same(
                call, shown.flatten()[None].float(), expected.flatten()[None].float(), "row"
            )
    if not compared:
        raise NotAsked("its read doors show no row by its slot")


@law(
    "oracle.peek-regions",
    DeclaresRegions,
    KVLeaf,
    applies=has_layers,
    when=_offered,
    needs=("oracle.poke-peek",),
    check="one of the two has another slot, layer or order of elements",
)
def peek_regions(bench: KVBench) -> None:
    """What is peeked is what lies at the addresses that the pool declares."""
    for part, layer_id, slot in _places(bench):
        row = _sample(bench, (part, layer_id, slot))
        _access(bench).poke(bench.pool, part, layer_id, slot, row)
        match part:
            case "key" | "value":
                told = bench.oracle.stored_bytes(part, layer_id)[slot]
            case "index_key":
                told = bench.oracle.index_at(layer_id, slot)[0]
            case "index_scale":
                told = torch.tensor(bench.oracle.index_at(layer_id, slot)[1])
        _expect_row(
            bench,
            f"bytes at the declared addresses after {_called('poke', (part, layer_id, slot))}",
            _raw(told),
            _raw(row),
        )


@law(
    "oracle.no-doors",
    KVLeaf,
    applies=has_layers,
    when=_offered,
    needs=OWNED,
    check="go to the storage itself: a wrong door would hide its own fault",
)
def no_doors(bench: KVBench) -> None:
    """Rows are peeked and poked without a door of the pool."""
    cls = cast("type[object]", type(bench.pool))
    doors = [name for name in advertised_methods(bench.pool) if name.endswith("_buffer")]
    with ExitStack() as closed:
        for door in doors:
            closed.enter_context(patch.object(cls, door, _closed(door)))
        for place in _places(bench):
            _access(bench).poke(bench.pool, *place, _sample(bench, place))
            _peek(bench, place[:2], place[2])


def _closed(door: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise LawBroken("peek and poke", expected="no call of the pool's doors", got=f"{door}(...)")

    return refuse


def _access(bench: KVBench) -> RowAccess:
    access = bench.oracle.row_access
    assert access is not None  # laws on it bind nothing else
    return access


def _peek(bench: KVBench, part_and_layer: tuple[RowPart, int], slot: int) -> Tensor:
    return _access(bench).peek(bench.pool, *part_and_layer, slot).clone()


def _places(bench: KVBench) -> Iterator[Place]:
    parts: list[tuple[RowPart, int]] = []
    for layer_id in bench.layer_ids:
        parts.extend((side, layer_id) for side in bench.sides)
    if isinstance(bench, LatentBench) and bench.index_head_dim:
        keyed: tuple[RowPart, RowPart] = ("index_key", "index_scale")
        for layer_id in bench.index_layers:
            parts.extend((part, layer_id) for part in keyed)
    for part, layer_id in parts:
        for slot in (1, bench.slots - 1):
            yield part, layer_id, slot


def _beside(bench: KVBench, slot: int) -> list[int]:
    return [near for near in (slot - 1, slot + 1) if 0 <= near < bench.slots]


def _sample(bench: KVBench, place: Place) -> Tensor:
    """Elements of that part that are not zero, others for each slot and layer."""
    part, layer_id, slot = place
    salt = 3 * layer_id + slot
    match part:
        case "key" | "value":
            if isinstance(bench, LatentBench) and bench.packed:
                return _packed(bench, salt)
            return bench.rows(part, 1, salt)[0].to(bench.request.dtype)
        case "index_key":
            assert isinstance(bench, LatentBench)
            return bench.index_rows(1, salt)[0][0].view(torch.uint8)
        case "index_scale":
            return torch.tensor(2.0 + salt)


def _packed(bench: LatentBench, salt: int) -> Tensor:
    rank, rows = bench.asked.kv_lora_rank, bench.rows("key", 1, salt)[0]
    latent = rows[:, :rank].to(torch.float8_e4m3fn)
    scales = 1.0 + torch.arange(rank // 128, dtype=torch.float32)[None]
    parts = latent, scales, rows[:, rank:].to(torch.bfloat16)
    return torch.cat([part.contiguous().view(torch.uint8) for part in parts], dim=1)


def _shown(bench: KVBench, place: Place) -> Tensor | None:
    """What a read door shows of the place; None where the door has another form of it."""
    part, layer_id, slot = place
    pool: Any = bench.pool
    match part:
        case "key" | "value":
            if isinstance(bench, LatentBench) and bench.packed:
                layer, loc = LayerStub(layer_id), torch.tensor([slot])
                return torch.cat(pool.get_mla_kv_buffer(layer, loc, dst_dtype=torch.float32), -1)
            read = pool.get_key_buffer if part == "key" else pool.get_value_buffer
            buffer: Tensor = read(layer_id)
            return buffer[slot] if buffer.dim() == 3 else None
        case "index_key" | "index_scale":
            page, token = divmod(slot, bench.request.page_size)
            lens, pages = torch.tensor([token + 1]), torch.tensor([[page]])
            found: tuple[Tensor, Tensor] = pool.get_index_k_scale_buffer(
                layer_id, lens, pages, token + 1, token + 1
            )
            if part == "index_key":
                return found[0][token].view(torch.uint8)
            return found[1][token].view(torch.float32)


def _raw(row: Tensor) -> Tensor:
    return row.contiguous().reshape(-1).view(torch.uint8)


def _expect_row(bench: KVBench, call: str, got: Tensor, expected: Tensor) -> None:
    forms = [(tensor.dtype, tuple(tensor.shape)) for tensor in (expected, got)]
    bench.expect(call, expected=forms[0], got=forms[1])
    bench.expect_same(call, _raw(got)[None], _raw(expected)[None], "row of bytes")


def _called(method: str, place: Place) -> str:
    part, layer_id, slot = place
    return f"{method}(pool, {part!r}, {layer_id}, {slot})"
