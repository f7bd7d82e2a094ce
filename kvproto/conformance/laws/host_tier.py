"""What the host tier sizes and strides its memory by: the geometry of the declared regions."""

from __future__ import annotations

import torch

from kvproto.protocols import BufferRegion, DeclaresRegions, Field, KVLeaf

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from ..storage import kept_bytes


@law(
    "host-tier.geometry",
    DeclaresRegions,
    KVLeaf,
    check="count what a token takes as it is stored: a packed row is 656 bytes, not 576 elements",
)
def geometry(bench: KVBench) -> None:
    """Bytes per token of all regions, times the slots, are the bytes the pool has allocated."""
    regions = bench.pool.buffer_regions()
    for region in (r for r in regions if not r.by_request):
        pages = (region.page_size * region.page_count, region.bytes_per_page % region.page_size)
        call = f"region of {_named(region)}: slots, and bytes of a page beyond whole tokens"
        bench.expect(call, expected=(bench.slots_of(region), 0), got=pages)
    told = sum(region.nbytes for region in regions)
    owned = kept_bytes(bench.pool, bench.slots)
    if told != owned:
        raise LawBroken(
            "buffer_regions()",
            expected=f"{owned / bench.slots:g} bytes per token, as the pool's tensors hold",
            got=f"{told / bench.slots:g}",
        )


@law(
    "host-tier.fields",
    DeclaresRegions,
    KVLeaf,
    applies=has_layers,
    needs=("host-tier.geometry",),
    check="name the scales of a packed row, and every block of an index page",
)
def fields(bench: KVBench) -> None:
    """The fields of a region cover every byte of its pages, and no byte twice."""
    for region in bench.pool.buffer_regions():
        times = torch.zeros(region.bytes_per_page, dtype=torch.int64)
        for field in region.fields:
            at = _bytes_of(field)
            times.index_add_(0, at, torch.ones_like(at))
        wrong = (times != 1).nonzero().flatten()
        if len(wrong):
            byte = int(wrong[0])
            raise LawBroken(
                f"fields of the region of {_named(region)}",
                expected=f"every one of {region.bytes_per_page} bytes of a page in one field",
                got=f"byte {byte} in {int(times[byte])} ({len(wrong)} such bytes)",
            )


def _bytes_of(field: Field) -> torch.Tensor:
    at = torch.tensor([field.offset])
    for axis in field.axes:
        along = torch.tensor([axis.offset(i) for i in range(axis.size)])
        at = (at.unsqueeze(-1) + along).flatten()
    return (at.unsqueeze(-1) + torch.arange(field.element_bytes)).flatten()


def _named(region: BufferRegion) -> str:
    return "/".join(field.name for field in region.fields)
