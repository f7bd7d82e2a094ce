"""The one door through which pools of a device are built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from .allocator import SlotAllocator
    from .leaf import KVLeaf
    from .requests import AllocatorRequest, Declined, LeafRequest
    from .traits import Fp8Variant, IndexLayout

__all__ = [
    "DSARows",
    "HeadLayout",
    "IndexKeys",
    "LatentLayout",
    "Platform",
    "PlatformCapabilities",
    "Subsystem",
]

Subsystem = Literal[
    "unified_buffer", "fused_draft", "compressed_pool", "qsa_pool", "page_shards", "ple_state"
]
"""Ways to keep caches that not every platform knows: one byte buffer for every pool, rows of a
draft in the pages of its model, rows of several tokens each, index keys of several tokens each,
pages dealt out over ranks, convolutions of per-layer embeddings beside a slot of state. A platform
that builds one says so."""

DSARows = Literal["packed", "raw"]
"""How attention reads fp8 latents beside index keys: rows with scales in them, or bare numbers."""

HeadLayout = Literal["nhd", "hnd", "paged_nhd", "vectorized_5d", "page_envelope"]
"""The layouts of rows of heads, see `PoolTraits.layout`."""

LatentLayout = Literal["latent_rows", "latent_split", "latent_split_nz"]
"""The layouts of latent rows, see `PoolTraits.layout`."""

IndexKeys = Literal["scaled", "plain"]
"""Index keys beside latents that are no fp8: quantised with scales, or of the latents' type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformCapabilities:
    """Facts of a device that decide which kernels and options are legal on it."""

    device_type: str
    supports_triton: bool
    supports_graph_capture: bool
    fp8_variant: Fp8Variant
    default_page_size: int = 1
    """Tokens of a page where a deployment asks for no number: what its attention kernels prefer."""
    registration_alignment: int = 1
    """Bytes to which start and length of a buffer registered for transfer must be aligned."""
    head_layout: HeadLayout = "nhd"
    """How rows of heads lie where a deployment asks for no layout: as its attention reads them."""
    latent_layout: LatentLayout = "latent_rows"
    """How its kernels read latent rows where a deployment asks for no layout."""
    other_latent_layouts: tuple[LatentLayout, ...] = ()
    """How else they read latent rows without index keys, where a deployment asks for it."""
    dsa_rows: tuple[DSARows, ...] = ("packed", "raw")
    """fp8 rows beside index keys that its kernels read, the preferred first; packed ones are
    e4m3fn."""
    index_layout: IndexLayout = "token_rows"
    """How its kernels read index keys beside latents, on pages of more than one."""
    index_keys: IndexKeys = "scaled"
    """Those its kernels read beside latents that are no fp8."""
    subsystems: frozenset[Subsystem] = frozenset()
    """What it offers beyond leaves; a plan that needs another is refused."""


@runtime_checkable
class Platform(Capability, Protocol):
    """Can it build pools for a device?

    In-tree platforms and plugins are used through this protocol alone. What a platform does
    not build it declines with a reason, at configure time.
    """

    @property
    def name(self) -> str:
        """The platform's name in options and messages, for example `cuda`."""
        ...

    @property
    def capabilities(self) -> PlatformCapabilities:
        """What the device can do; constant."""
        ...

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """A leaf that holds what is asked for, its buffers allocated and zero."""
        ...

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        """An allocator over the requested slots, all of them free."""
        ...
