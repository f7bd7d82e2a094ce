"""What a transfer engine is told to register."""

from __future__ import annotations

from kvproto.protocols import DeclaresRegions, KVLeaf, registered_spans

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from ..storage import tensors_of
from .leaf import OWNED


@law(
    "transfer.registered",
    DeclaresRegions,
    KVLeaf,
    applies=has_layers,
    needs=OWNED,
    check="allocate up to the next multiple of the registration_alignment that regions declare",
)
def registered(bench: KVBench) -> None:
    """Every span to register is bytes of one of the pool's own buffers."""
    storages = [tensor.untyped_storage() for tensor in tensors_of(bench.pool)]
    owned = {(held.data_ptr(), held.data_ptr() + held.nbytes()) for held in storages}
    for start, length in registered_spans(bench.pool.buffer_regions()):
        if not any(_within(start, length, first, last) for first, last in owned):
            raise LawBroken(
                "a span to register",
                expected="bytes of one of the pool's own buffers",
                got=f"{length} bytes at {start:#x}",
            )


def _within(start: int, length: int, first: int, last: int) -> bool:
    return first <= start and start + length <= last
