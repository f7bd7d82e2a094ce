"""Leaves that declare their bytes wrongly."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvproto.protocols import (
    Axis,
    BufferRegion,
    DSALeafRequest,
    Field,
    MHALeafRequest,
    MLALeafRequest,
    Tile,
    row_major,
)
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

from .registry import mutant


@mutant("transfer.regions", source="ROCm/ATOM#1368", serves=DSALeafRequest)
class DeclaresNoIndexRegion(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return self._row_regions()


@mutant("host-tier.geometry", source="sgl-project/sglang#37534", serves=DSALeafRequest)
class DeclaresNominalRows(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        rows, *rest = super().buffer_regions()
        width = (self.kv_lora_rank + self.qk_rope_head_dim) * self.dtype.itemsize
        axes = row_major("uint8", ("token", self.page_size), ("dim", width))
        nominal = replace(
            rows,
            fields=(Field("latent", "uint8", axes),),
            bytes_per_page=width * self.page_size,
            page_stride=0,
        )
        return nominal, *rest


@mutant("host-tier.fields", source="ormandj/sglang-glm53-flash-sm120#2", serves=DSALeafRequest)
class DeclaresNoScales(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, fields=tuple(f for f in region.fields if f.name != "scale"))
            for region in super().buffer_regions()
        )


@mutant("transfer.registered", serves=MHALeafRequest)
class RegistersPastItsBuffers(MHALeaf):
    """Each buffer begins at a multiple of what it declares, and does not go on to the next."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, layer_ids=(i,), bases=(base,), registration_alignment=base)
            for region in super().buffer_regions()
            for i, base in zip(region.layer_ids, region.bases, strict=True)
        )


@mutant("host-tier.layouts", source="sgl-project/sglang#37534", serves=MHALeafRequest)
class DeclaresLayersInReverse(MHALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(replace(r, bases=r.bases[::-1]) for r in super().buffer_regions())


@mutant("host-tier.layouts", source="sgl-project/sglang#36121", serves=DSALeafRequest)
class DeclaresNoIndexPages(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return super().buffer_regions()[:1]


@mutant("transfer.loopback", serves=MHALeafRequest)
class DeclaresUsablePagesOnly(MHALeaf):
    """Page 0 of a region is the pool's page 1."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(
                region,
                bases=tuple(base + region.bytes_per_page for base in region.bases),
                page_count=region.page_count - 1,
            )
            for region in super().buffer_regions()
        )


@mutant("transfer.loopback", source="ROCm/ATOM#1368", serves=DSALeafRequest)
class LeavesIndexPagesBehind(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return self._row_regions()


@mutant("oracle.rows", serves=MHALeafRequest)
class DeclaresTheRowAfter(MHALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, bases=tuple(b + region.bytes_per_page for b in region.bases))
            for region in super().buffer_regions()
        )


@mutant("oracle.packed", source="sgl-project/sglang#37534", serves=DSALeafRequest)
class DeclaresRopeBeforeScales(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        rows, *rest = super().buffer_regions()
        offsets = {"rope": self.kv_lora_rank}
        offsets["scale"] = self.kv_lora_rank + 2 * self.qk_rope_head_dim
        moved = (replace(f, offset=offsets.get(f.name, 0)) for f in rows.fields)
        fields = tuple(moved) if len(rows.fields) == 3 else rows.fields
        return replace(rows, fields=fields), *rest


@mutant("oracle.index", source="sgl-project/sglang#31215", serves=DSALeafRequest)
class DeclaresScalesBesideKeys(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        token = Axis("token", (Tile(self.page_size, self.index_head_dim + 4),))
        return tuple(
            replace(region, fields=tuple(self._beside(f, token) for f in region.fields))
            if region.fields[0].name == "index_key"
            else region
            for region in super().buffer_regions()
        )

    def _beside(self, field: Field, token: Axis) -> Field:
        offset = self.index_head_dim if field.name == "scale" else 0
        return replace(field, axes=(token, *field.axes[1:]), offset=offset)


@mutant("transfer.fingerprint", source="sgl-project/sglang#19398", serves=MLALeafRequest)
class DeclaresBytes(MLALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, fields=(Field("latent", "uint8", _bytes_of(region)),))
            for region in super().buffer_regions()
        )


def _bytes_of(region: BufferRegion) -> Any:
    width = region.bytes_per_page // region.page_size
    return row_major("uint8", ("token", region.page_size), ("dim", width))
