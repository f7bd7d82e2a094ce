"""What a process says of its pools before pages travel: a frozen value, sent to every peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from kvproto.protocols import BufferRegion, Fingerprint, PoolTraits

from .split import Split

__all__ = [
    "MANIFEST_VERSION",
    "Conversion",
    "IndexSpace",
    "LeftOut",
    "ManifestRegion",
    "PoolManifest",
    "PoolName",
    "PoolPart",
]

MANIFEST_VERSION = 1
"""Peers of another version are refused: raised whenever a manifest means something else."""

IndexSpace: TypeAlias = Literal["full", "window", "state", "request"]
"""What a region's pages are numbered by: token pages of the pool, token pages of its window
sub-pool, state slots, or rows of the request table."""

PoolName: TypeAlias = Literal["target", "draft"]
"""Whose pool of a manifest it is. Both are addressed by the same page lists, space by space."""

_ADDRESSES = 1 << 63
"""Descriptors are signed 64-bit numbers."""

Conversion: TypeAlias = Literal["none", "staging"]
"""What a receiver can do with pages of another layout: nothing, or convert them from staging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Bytes that a pool owns and that deliberately do not travel, and why."""

    name: str
    nbytes: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.nbytes} bytes): {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRegion:
    """A region, what its pages are numbered by, and which heads of the model are in it.

    Number `i` of the space names the region's pages `i * pages_per_item` up to, but without,
    `(i + 1) * pages_per_item`: a ring of several pages, or the index pages of several ranks.
    `heads` is the first global head and one past the last; None where rows have no heads, where
    all ranks have the same ones, or where `describe` was not told. `split` is the same of recurrent
    state, whose items ranks split along an axis of their own.

    :raises ValueError: for no whole items, addresses that are none, and heads that rows have not.
    """

    space: IndexSpace
    region: BufferRegion
    pages_per_item: int = 1
    heads: tuple[int, int] | None = None
    split: Split | None = None

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ValueError(f"ManifestRegion of {self.name}: {problem}")

    def _problems(self) -> Iterator[str]:
        region, item = self.region, self.pages_per_item
        if item < 1 or region.page_count < item or region.page_count % item:
            yield f"{region.page_count} pages, {item} to an item"
        if region.bytes_per_page < 1 or not region.fields or not region.layer_ids:
            yield f"{region.bytes_per_page} bytes a page, {len(region.layer_ids)} layers"
        told = sum(prod(field.shape) * field.element_bytes for field in region.fields)
        if told > region.bytes_per_page:
            yield f"fields of {told} bytes in pages of {region.bytes_per_page}"
        reach = region.page_count * region.page_stride
        if region.bases and not 0 < min(region.bases) <= max(region.bases) < _ADDRESSES - reach:
            yield f"bases {min(region.bases):#x} to {max(region.bases):#x} are no addresses"
        if self.heads is not None and self.heads[1] - self.heads[0] not in _head_counts(region):
            yield f"heads {self.heads}, rows have {sorted(_head_counts(region))}"
        if self.split and region.bytes_per_page % (self.split.outer * self.split.steps):
            yield f"{region.bytes_per_page} bytes are not {self.split}"

    @property
    def name(self) -> str:
        """What the bytes are: the names of the fields, padding aside."""
        return "/".join(f.name for f in self.region.fields if f.name != "padding")

    @property
    def capacity(self) -> int:
        """How many numbers of the space it has bytes for, the reserved 0 included."""
        return self.region.page_count // self.pages_per_item

    @property
    def fingerprint(self) -> Fingerprint:
        """What a peer compares before a byte moves."""
        return self.region.fingerprint


def _head_counts(region: BufferRegion) -> set[int]:
    return {axis.size for field in region.fields for axis in field.axes if axis.name == "head"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPart:
    """One pool: the target's, or that of the draft model beside it.

    `page_size` counts the tokens of a page of the full and of the window space. Regions are in the
    order of `DeclaresRegions.buffer_regions`.
    """

    name: PoolName
    page_size: int
    traits: PoolTraits | None
    regions: tuple[ManifestRegion, ...]
    left_out: tuple[LeftOut, ...] = ()

    def in_space(self, space: IndexSpace) -> tuple[ManifestRegion, ...]:
        """The regions numbered so."""
        return tuple(each for each in self.regions if each.space == space)

    @property
    def layer_ids(self) -> tuple[int, ...]:
        """The global ids of all layers that have bytes here, ascending."""
        return tuple(sorted({i for each in self.regions for i in each.region.layer_ids}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolManifest:
    """Every byte of a process's pools that may travel, and what of them does not.

    Bases are live addresses of `owner`: a manifest is valid until its pools are freed. `process` is
    the same of one process alone, whatever its owners are called: only then do equal bases name the
    same bytes. Two without one are taken for one process.

    :raises ValueError: for pools that are not the target's and perhaps the draft's after it, and
        for pages of two sizes, which no page list could number.
    """

    owner: str
    pools: tuple[PoolPart, ...]
    version: int = MANIFEST_VERSION
    conversion: Conversion = "none"
    process: str = ""

    def __post_init__(self) -> None:
        names = [part.name for part in self.pools]
        if names not in (["target"], ["target", "draft"]):
            raise ValueError(f"PoolManifest.pools are {names}: the target's, then the draft's")
        sizes = {part.name: part.page_size for part in self.pools}
        if len(set(sizes.values())) > 1 or min(sizes.values()) < 1:
            raise ValueError(f"PoolManifest.pools have pages of {sizes} tokens: must be the same")

    def pool(self, name: PoolName) -> PoolPart:
        """The pool of that name.

        :raises KeyError: naming those there are.
        """
        for part in self.pools:
            if part.name == name:
                return part
        raise KeyError(f"no pool '{name}', there are {', '.join(p.name for p in self.pools)}")

    @property
    def spaces(self) -> tuple[IndexSpace, ...]:
        """The spaces that some region is numbered by, in the order of `IndexSpace`."""
        order: tuple[IndexSpace, ...] = ("full", "window", "state", "request")
        used = {each.space for part in self.pools for each in part.regions}
        return tuple(space for space in order if space in used)

    def bases(self, space: IndexSpace) -> frozenset[int]:
        """Where the regions of a space begin, of all pools and layers."""
        held = (each for part in self.pools for each in part.in_space(space))
        return frozenset(base for each in held for base in each.region.bases)

    def capacity(self, space: IndexSpace) -> int:
        """How many numbers of the space every region of it has, the reserved 0 included; or 0."""
        held = [each.capacity for part in self.pools for each in part.in_space(space)]
        return min(held, default=0)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What of all the pools does not travel."""
        return tuple(each for part in self.pools for each in part.left_out)

    @property
    def nbytes(self) -> int:
        """Bytes of all regions, reserved pages included, gaps between pages not."""
        return sum(each.region.nbytes for part in self.pools for each in part.regions)
