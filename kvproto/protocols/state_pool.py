"""Recurrent state: one slot per request, whatever its length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ._capability import Capability
from .state_transfer import StateSliceable

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["StatePool", "StateSlotAllocator"]


@runtime_checkable
class StatePool(StateSliceable, Protocol):
    """Does the pool own the state of recurrent layers, by slot?

    Slot 0 is reserved and stays zero. Slots are physical: a request pool with virtual ones
    translates before it calls.
    """

    @property
    def size(self) -> int:
        """Usable slots, the reserved one not counted."""
        ...

    @property
    def mamba_cache(self) -> object:
        """All state tensors, by name; those of convolutions are a list. `[layers, slots, ...]`.

        With speculative decoding also what verification leaves after each draft token, named
        `intermediate_*`: `[layers, request rows, draft tokens, ...]`, the rows one more than there
        are requests. It is scratch of a running request: no method here reads or writes it.
        """
        ...

    @property
    def mamba_layer_ids(self) -> Sequence[int]:
        """The global layer id of each layer owned."""
        ...

    def mamba2_layer_cache(self, layer_id: int, /) -> Any:
        """The same object for one layer, its tensors `[slots, ...]`; aliases.

        `layer_id` is the position in `mamba_layer_ids`, not the global id.

        :raises ValueError: for the position of no layer, below 0 too.
        """
        ...

    def clear_slots(self, indices: Tensor, /) -> None:
        """Zero every tensor of every layer at `[n]` slots; those below 0 are padding.

        Fixed-shape and without a host sync, NaN or not.
        """
        ...

    def copy_from(self, src_indices: Tensor, dst_indices: Tensor, /) -> None:
        """Copy every tensor of slot `src_indices[i]` to `dst_indices[i]`, in every layer.

        The two sets are disjoint, or equal. Sources keep their state. Targets of 0 and below
        are dropped. Fixed-shape and without a host sync.
        """
        ...

    def get_cpu_copy(self, indices: Tensor, /) -> Any:
        """Copy out the state at `[n]` slots, in a form of the pool's own; complete on return."""
        ...

    def load_cpu_copy(self, mamba_cache_cpu: Any, indices: Tensor, /) -> None:
        """Restore a copy into as many slots, not necessarily those it was made from."""
        ...

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` in bytes, tensor by tensor, layer by layer.

        An item is one SLOT: slot `s` is the `item_len` bytes at `ptr + s * item_len`.
        """
        ...

    def get_state_layer_ids(self) -> list[int]:
        """The global layer id of each entry of `get_contiguous_buf_infos`, in its order."""
        ...


@runtime_checkable
class StateSlotAllocator(Capability, Protocol):
    """Can the allocator lend state slots and take them back?

    Slot 0 is never handed out. Whoever gets a slot clears it before use.
    """

    @property
    def size(self) -> int:
        """Slots that can be owned at once."""
        ...

    def available_size(self) -> int:
        """Slots that can still be allocated."""
        ...

    def schedulable_available_size(self) -> int:
        """Slots to plan with: fewer than available where other pools share the bytes."""
        ...

    def alloc(self, need_size: int, /) -> Tensor | None:
        """`[need_size]` integer slots; None, with nothing changed, when too few are free."""
        ...

    def free(self, free_index: Tensor, /) -> None:
        """Take slots back, `[n]` int32 or int64, in any order; the caller may overwrite it at once.

        A slot that is free already, slot 0 and what is out of range never become free.
        """
        ...

    def alloc_group_begin(self, num_reqs: int, /) -> None:
        """Expect up to `num_reqs` calls of `alloc(1)`; slots may be taken ahead for them.

        A group that was left open ends first. More calls than that are served too.
        """
        ...

    def alloc_group_end(self) -> None:
        """Return what was taken ahead and not asked for."""
        ...

    def clear(self) -> None:
        """Own nothing, as when built. No buffer of the pool is touched."""
        ...
