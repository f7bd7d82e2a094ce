"""Where a pool's bytes are: the one description that everything else is derived from.

Transfer descriptors, host-tier geometry, sizes, the fingerprint that peers compare and the
conformance kit's independent reader all come from `BufferRegion`. Addresses are Python
integers, so nothing overflows however large the pool is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

from ._capability import Capability
from .layout import Field

__all__ = [
    "BufferRegion",
    "DeclaresRegions",
    "Fingerprint",
    "buf_infos",
    "peer_differences",
    "registered_spans",
]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What two pools must agree on before pages may travel between them.

    Left out on purpose: addresses, number of pages, stride between pages, alignments.
    """

    layer_ids: tuple[int, ...]
    page_size: int
    bytes_per_page: int
    fields: tuple[Field, ...]

    def digest(self) -> str:
        """Sixteen hex digits, equal on every machine for equal fingerprints."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def differences(self, other: Fingerprint) -> list[str]:
        """One line per member that differs: its name, this side's value, the other's."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return [
            f"{name}: {mine} here, {theirs} there" for name, mine, theirs in pairs if mine != theirs
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRegion:
    """The same kind of bytes for some layers: pages of `bytes_per_page`, `page_stride` apart.

    `bases[i]` is the address of page 0 of global layer `layer_ids[i]`. `fields` say what lies
    where inside a page; the first axis of each is the token within the page. `page_count`
    includes the reserved page 0. `alignment` is what every base is a multiple of.

    `registration_alignment` is what a transfer engine wants start and length of what it registers
    to be a multiple of: a base is one, or lies where the pages of another base end, and the
    pool owns the bytes up to the next multiple after its last page (see `registered_spans`).

    Where a page is an envelope of all layers, there is one base for them together, and the second
    axis of every field that is not padding is the layer: step `i` is `layer_ids[i]`.

    :raises ValueError: for bases that do not match the layers or the alignment, fields that
        leave the page, pages that overlap, a layer axis of another length or place, alignments
        less than 1.
    """

    layer_ids: tuple[int, ...]
    bases: tuple[int, ...]
    page_count: int
    page_size: int
    bytes_per_page: int
    fields: tuple[Field, ...]
    page_stride: int = 0
    alignment: int = 1
    registration_alignment: int = 1

    def __post_init__(self) -> None:
        if not self.page_stride:
            object.__setattr__(self, "page_stride", self.bytes_per_page)
        for problem in self._problems():
            raise ValueError(f"BufferRegion of {'/'.join(f.name for f in self.fields)}: {problem}")

    def _problems(self) -> list[str]:
        if self.alignment < 1:
            return [f"alignment {self.alignment}: must be at least 1"]
        if self.registration_alignment < 1:
            return [f"registration_alignment {self.registration_alignment}: must be at least 1"]
        problems: list[str] = []
        if len(self.bases) != (1 if self.is_envelope else len(self.layer_ids)):
            problems.append(f"{len(self.bases)} bases for {len(self.layer_ids)} layers")
        if len(set(self.layer_ids)) != len(self.layer_ids):
            problems.append(f"a layer is named twice in {self.layer_ids}")
        if any(base % self.alignment for base in self.bases):
            problems.append(f"a base is not a multiple of alignment {self.alignment}")
        problems += self._unregistered()
        if self.page_stride < self.bytes_per_page:
            problems.append(f"pages of {self.bytes_per_page} bytes lie {self.page_stride} apart")
        for field in self.fields:
            if field.end > self.bytes_per_page:
                problems.append(f"{field.name} ends at byte {field.end} of {self.bytes_per_page}")
            if field.axes[0].name != "token" or field.axes[0].size != self.page_size:
                problems.append(f"{field.name}'s first axis is not {self.page_size} tokens")
            if self.is_envelope and field.name != "padding" and not self._has_layers(field):
                problems.append(f"{field.name}'s second axis is not {len(self.layer_ids)} layers")
        return problems

    def _unregistered(self) -> list[str]:
        unit, end = self.registration_alignment, -1
        for base in sorted(self.bases):
            if base % unit and base != end:
                return [f"a base neither continues another nor is a multiple of {unit}"]
            end = base + self.page_count * self.page_stride
        return []

    def _has_layers(self, field: Field) -> bool:
        sizes = [axis.size for axis in field.axes[1:2] if axis.name == "layer"]
        return sizes == [len(self.layer_ids)]

    @property
    def is_envelope(self) -> bool:
        """Whether a page holds all layers."""
        return any(axis.name == "layer" for field in self.fields for axis in field.axes)

    @property
    def by_request(self) -> bool:
        """Whether a page is a request's row, as it is of tails, and no page of tokens."""
        return self.fields[0].name in ("tail_key", "tail_score")

    @property
    def nbytes(self) -> int:
        """Bytes of all layers, the reserved page included, gaps between pages not."""
        return len(self.bases) * self.page_count * self.bytes_per_page

    @property
    def fingerprint(self) -> Fingerprint:
        """What a peer compares before a byte moves."""
        return Fingerprint(self.layer_ids, self.page_size, self.bytes_per_page, self.fields)

    def field(self, name: str) -> Field:
        """The field of that name.

        :raises KeyError: naming the fields there are.
        """
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"no field '{name}', there are {', '.join(f.name for f in self.fields)}")

    def in_layer(self, layer_id: int, field: Field) -> Field:
        """The field as a page of that layer alone has it: without a layer axis, from its place.

        :raises ValueError: for a layer the region does not hold.
        """
        step = self._place(layer_id)
        if not any(axis.name == "layer" for axis in field.axes):
            return field
        token, layer, *rest = field.axes
        return replace(field, axes=(token, *rest), offset=field.offset + layer.offset(step))

    def page_address(self, layer_id: int, page: int) -> int:
        """Address of the first byte of a page of a global layer, which an envelope shares.

        :raises ValueError: for a layer the region does not hold.
        :raises IndexError: for a page outside `0 <= page < page_count`.
        """
        step = self._place(layer_id)
        if not 0 <= page < self.page_count:
            raise IndexError(f"page {page} is outside 0..{self.page_count - 1}")
        return self.bases[0 if self.is_envelope else step] + page * self.page_stride

    def _place(self, layer_id: int) -> int:
        if layer_id not in self.layer_ids:
            raise ValueError(f"layer_id {layer_id} is not here, the region holds {self.layer_ids}")
        return self.layer_ids.index(layer_id)

    def address(self, layer_id: int, page: int, token: int, *index: int, field: str = "") -> int:
        """Address of one element: token `token` of a page, then an index per axis after the layer.

        Without `index` it is the element at 0 of every further axis, the start of the token's
        row in dense layouts. `field` may be left out where there is only one.

        :raises ValueError, IndexError, KeyError: as `page_address`, `Field.at` and `field`.
        """
        part = self.in_layer(layer_id, self.field(field) if field else self.fields[0])
        rest = index or (0,) * (len(part.axes) - 1)
        return self.page_address(layer_id, page) + part.at(token, *rest)


@runtime_checkable
class DeclaresRegions(Capability, Protocol):
    """Does the pool say where each of its bytes is?"""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """Every region the pool owns, in the order of its transfer descriptors.

        Those of `Transferable` first, then `BlockScaled`'s, then those of `StateTransferable`,
        then the rings of `KPoolTail`, whose pages are request rows (`BufferRegion.by_request`). A
        region names only the layers that have rows in it, and its fields cover every byte of its
        pages. Together the regions cover each per-token byte once. Bases are live addresses: valid
        until the pool is freed.
        """
        ...


def buf_infos(regions: Sequence[BufferRegion]) -> tuple[list[int], list[int], list[int]]:
    """`(ptrs, lens, item_lens)` as `Transferable` gives them, one entry per region and layer.

    A region of envelopes is one entry.

    :raises ValueError: for pages with gaps between them, which this form cannot express.
    """
    ptrs: list[int] = []
    lens: list[int] = []
    item_lens: list[int] = []
    for region in regions:
        if region.page_stride != region.bytes_per_page:
            raise ValueError(
                f"pages of {region.bytes_per_page} bytes lie {region.page_stride} apart: pointer, "
                "length and item length describe dense pages only"
            )
        for base in region.bases:
            ptrs.append(base)
            lens.append(region.page_count * region.bytes_per_page)
            item_lens.append(region.bytes_per_page)
    return ptrs, lens, item_lens


def registered_spans(regions: Sequence[BufferRegion]) -> list[tuple[int, int]]:
    """`(start, length)` in bytes of what to register for RDMA, of a leaf or of a whole pool.

    Both are multiples of their region's `registration_alignment`. The spans cover every page of the
    regions, apart from each other, and only bytes that the pool owns.
    """
    spans: list[tuple[int, int]] = []
    for region in regions:
        unit, size = region.registration_alignment, region.page_count * region.page_stride
        for base in sorted(region.bases):
            start = spans.pop()[0] if base % unit else base
            spans.append((start, -(-(base + size - start) // unit) * unit))
    return spans


def peer_differences(mine: Sequence[BufferRegion], theirs: Sequence[BufferRegion]) -> list[str]:
    """Why pages may not travel between two pools; empty when they may."""
    if len(mine) != len(theirs):
        return [f"number of regions: {len(mine)} here, {len(theirs)} there"]
    return [
        f"region {i}: {line}"
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True))
        for line in a.fingerprint.differences(b.fingerprint)
    ]
