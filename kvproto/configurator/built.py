"""Built pools, and what each can do, asked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from typing_extensions import TypeForm

from kvproto.protocols import (
    DeclaresRegions,
    DSV4Compressed,
    HiSparse,
    HostCopyable,
    HostMirrorable,
    IndexerCapable,
    IndexKeyRows,
    KVPool,
    MLALatent,
    Movable,
    PageSharded,
    PoolTraits,
    RequestPool,
    RequestRingSWA,
    SlotAllocator,
    StatePool,
    StateTransferable,
    SWAComposite,
    Transferable,
    supports,
)

from .pool_plan import PoolPlan

if TYPE_CHECKING:
    from torch import Tensor, dtype

__all__ = ["BuiltPools", "RowlessPool", "Views", "views_of"]

_Capability = TypeVar("_Capability")


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """A pool under each capability it has, None where it has not: hot paths ask `is not None`."""

    swa: SWAComposite | None
    ring: RequestRingSWA | None
    hisparse: HiSparse | None
    page_sharded: PageSharded | None
    latent: MLALatent | None
    indexer: IndexerCapable | None
    index_rows: IndexKeyRows | None
    movable: Movable | None
    transfer: Transferable | None
    state_transfer: StateTransferable | None
    host_copy: HostCopyable | None
    host: HostMirrorable | None
    regions: DeclaresRegions | None


class RowlessPool(Protocol):
    """What attention may read where no rows are kept: placeholders, for every owned layer.

    It has no door to write through, so that it is no `KVPool`.
    """

    @property
    def size(self) -> int:
        """Tokens that a scheduler may admit."""
        ...

    @property
    def page_size(self) -> int:
        """Tokens of a page, and of a placeholder."""
        ...

    @property
    def dtype(self) -> dtype:
        """What an element of a placeholder means."""
        ...

    @property
    def pool_traits(self) -> PoolTraits:
        """Of kind `noop`."""
        ...

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """A page of zeros each, in the shape of keys and of values."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPools:
    """What a plan became. `pool` and `views` are None for a stage whose layers keep nothing; a
    plan without rows has `rowless` in place of them, one of compressed rows `compressed` in place
    of `pool`. `draft` and `draft_views` are None where nothing is drafted.

    `notes` say what was built by another than the platform, a line each.
    """

    plan: PoolPlan
    pool: KVPool | None
    rowless: RowlessPool | None
    compressed: DSV4Compressed | None
    views: Views | None
    state: StatePool | None
    draft: KVPool | None
    draft_views: Views | None
    allocator: SlotAllocator
    request_pool: RequestPool
    notes: tuple[str, ...]


def views_of(pool: KVPool | DSV4Compressed) -> Views:
    """The pool under each capability it has."""
    return Views(
        swa=_bound(pool, SWAComposite),
        ring=_bound(pool, RequestRingSWA),
        hisparse=_bound(pool, HiSparse),
        page_sharded=_bound(pool, PageSharded),
        latent=_bound(pool, MLALatent),
        indexer=_bound(pool, IndexerCapable),
        index_rows=_bound(pool, IndexKeyRows),
        movable=_bound(pool, Movable),
        transfer=_bound(pool, Transferable),
        state_transfer=_bound(pool, StateTransferable),
        host_copy=_bound(pool, HostCopyable),
        host=_bound(pool, HostMirrorable),
        regions=_bound(pool, DeclaresRegions),
    )


def _bound(pool: object, capability: TypeForm[_Capability]) -> _Capability | None:
    return pool if supports(pool, capability) else None
