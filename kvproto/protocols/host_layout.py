"""Where the pages of a region lie in host memory: three orders of layers, pages and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from .regions import BufferRegion

__all__ = ["HostLayout", "HostRegion", "HostSpan"]

HostLayout = Literal["layer_first", "page_first", "page_first_direct"]
"""`layer_first`: all pages of a layer, then of the next. `page_first`: all layers of a token, then
of the next token. `page_first_direct`: a page whole in each layer, layer by layer."""


@dataclass(frozen=True, slots=True)
class HostSpan:
    """Bytes that lie together at both ends: offsets into host memory and into the device page."""

    host: int
    page: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRegion:
    """Host memory for `page_count` pages of every layer of a device region, numbered from 0.

    Everything follows from the region as it is stored; no nominal width is asked for. In
    `page_first` a region whose tokens' bytes do not lie together, such as an index page with all
    its scales at the end, is kept by whole pages, as in `page_first_direct`. Envelopes of all
    layers are kept whole in every layout; a layer's spans are its own rows in them.

    :raises ValueError: for less than one page.
    """

    region: BufferRegion
    layout: HostLayout
    page_count: int

    def __post_init__(self) -> None:
        if self.page_count < 1:
            raise ValueError(f"HostRegion.page_count={self.page_count}: must be at least 1")

    @property
    def nbytes(self) -> int:
        """Bytes of host memory: every byte of every page and layer once, nothing else."""
        return self.page_count * self.page_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of a page in all layers."""
        return len(self.region.bases) * self.region.bytes_per_page

    @property
    def by_token(self) -> bool:
        """Whether all layers of a token lie together, and not those of a page."""
        whole = self.region.is_envelope or not _has_token_rows(self.region)
        return self.layout == "page_first" and not whole

    def spans(self, layer_id: int, page: int) -> tuple[HostSpan, ...]:
        """The pieces of a host page that belong to a global layer id, in order.

        :raises ValueError: for a layer the region does not hold.
        :raises IndexError: for a page outside `0 <= page < page_count`.
        """
        region, layers = self.region, len(self.region.layer_ids)
        if layer_id not in region.layer_ids:
            raise ValueError(f"layer_id {layer_id} is not here, there are {region.layer_ids}")
        if not 0 <= page < self.page_count:
            raise IndexError(f"host page {page} is outside 0..{self.page_count - 1}")
        at, whole = region.layer_ids.index(layer_id), region.bytes_per_page
        if region.is_envelope:
            return tuple(_in_envelope(region, layer_id, page * whole))
        if self.layout == "layer_first":
            return (HostSpan((at * self.page_count + page) * whole, 0, whole),)
        if not self.by_token:
            return (HostSpan((page * layers + at) * whole, 0, whole),)
        row = whole // region.page_size
        first = page * region.page_size
        return tuple(
            HostSpan(((first + token) * layers + at) * row, token * row, row)
            for token in range(region.page_size)
        )


def _in_envelope(region: BufferRegion, layer_id: int, first: int) -> Iterator[HostSpan]:
    """A layer's rows, token after token, in a host page that begins at `first`."""
    for field in (region.in_layer(layer_id, f) for f in region.fields if f.name != "padding"):
        token, *row = field.axes
        dense = prod(axis.size for axis in row) * field.element_bytes
        if sum(axis.span for axis in row) + field.element_bytes != dense:
            raise ValueError(f"{field.name} rows of an envelope must be runs of bytes")
        for at in (field.offset + token.offset(i) for i in range(token.size)):
            yield HostSpan(first + at, at, dense)


def _has_token_rows(region: BufferRegion) -> bool:
    """Are the bytes of each token, whatever the field, one run between those of its neighbours?"""
    row, beyond = divmod(region.bytes_per_page, region.page_size)
    return not beyond and all(
        len(field.axes[0].tiles) == 1
        and (field.axes[0].tiles[0].stride == row or region.page_size == 1)
        and field.offset + sum(axis.span for axis in field.axes[1:]) + field.element_bytes <= row
        for field in region.fields
    )
