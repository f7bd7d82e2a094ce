"""Requests that own state slots beside their row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .request_pool import RequestPool

if TYPE_CHECKING:
    from torch import Tensor

    from .state_pool import StatePool, StateSlotAllocator

__all__ = ["StateRequestPool"]


@runtime_checkable
class StateRequestPool(RequestPool, Protocol):
    """Does a row of the pool come with a slot of recurrent state?

    `alloc` hands out both, `free` takes back the row only: state outlives a request while a
    prefix cache keeps it, and is freed by `free_mamba_cache`. A request that has a state slot
    keeps it, be it from an earlier row or copied from a prefix. None comes back, with nothing
    changed, also when there are too few state slots. `clear` takes those back with the rows.

    Beside `kv.req_pool_idx` a pool reads and sets `kv.mamba_pool_idx` on requests, a tensor of no
    dimension or None, and `kv.mamba_ping_pong_track_buffer` where it has extra buffers: a slot a
    position, -1 where there is none yet.
    """

    @property
    def mamba_pool(self) -> StatePool:
        """The state itself."""
        ...

    @property
    def mamba_allocator(self) -> StateSlotAllocator:
        """Who owns which state slot."""
        ...

    @property
    def mamba_ckpt_pool(self) -> object | None:
        """A second store for state kept by the prefix cache, or None."""
        ...

    @property
    def enable_mamba_extra_buffer(self) -> bool:
        """Whether a request has further slots that snapshots are written to in turn."""
        ...

    @property
    def mamba_initial_tracking_slots(self) -> int:
        """How many of those a request is given with its row."""
        ...

    def get_mamba_indices(self, req_indices: Tensor, /) -> Tensor:
        """State slots of rows; same shape, int32. Row 0 has slot 0."""
        ...

    def translate_mamba_indices(self, mamba_indices: Tensor, /) -> Tensor:
        """Physical state slots of those that `get_mamba_indices` and the allocator give.

        The same tensor on pools whose slots are physical.
        """
        ...

    def mamba2_layer_cache(self, layer_id: int, /) -> Any:
        """`StatePool.mamba2_layer_cache` by GLOBAL layer id, after its load from the host tier.

        :raises ValueError: for a layer that keeps no state.
        """
        ...

    def free_mamba_cache(
        self, req: Any, /, mamba_ping_pong_track_buffer_to_keep: int | None = None
    ) -> None:
        """Free the state slots of a request, except the snapshot slot at this position.

        A slot kept is the prefix cache's from now on.
        """
        ...

    def get_mamba_ping_pong_other_idx(self, mamba_next_track_idx: int, /) -> int:
        """The snapshot position after this one; the same where there is only one."""
        ...
