"""What sglang's consumers ask of sglang's own helpers, and of no vendor's pool.

Host pools, sides of shared buffers, snapshots: these are no part of what `kvproto.protocols` has
vendors build, and their members are sglang's to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kvproto.protocols import Capability

if TYPE_CHECKING:
    import torch

__all__ = [
    "AuxiliaryStates",
    "CompressedExports",
    "HostPools",
    "PhysicalReservations",
    "SharedHostArena",
    "StateCosts",
]


@runtime_checkable
class SharedHostArena(Capability, Protocol):
    """Does the host pool own memory, perhaps in an arena that it shares with others?"""

    @property
    def shared_allocation_domain(self) -> object | None:
        """The arena; None where the memory is the pool's alone."""
        ...

    @property
    def size_per_token(self) -> int:
        """Bytes that a token takes; 0 where there is no memory behind the slots."""
        ...

    def get_size_per_token(self) -> int:
        """The same, computed from what a row is: only who owns memory has one."""
        ...


@runtime_checkable
class HostPools(Capability, Protocol):
    """Is it several host pools that follow the slots of one?"""

    @property
    def entries(self) -> Sequence[Any]:
        """The pools, with what is said of each."""
        ...

    @property
    def entry_map(self) -> Mapping[Any, Any]:
        """The same by name."""
        ...

    @property
    def anchor_entry(self) -> Any:
        """The one whose slots the others follow."""
        ...

    def add_entry(self, entry: Any, /) -> None:
        """Let one more pool follow.

        :raises ValueError: where the name is taken, or the entry would replace the anchor.
        """
        ...


@runtime_checkable
class PhysicalReservations(Capability, Protocol):
    """Can the allocator lend places of a shared buffer before there are ids for them?"""

    def alloc_physical(self, need_size: int, /) -> torch.Tensor | None:
        """So many token slots, by place; None where there are not enough."""
        ...

    def cancel_physical_reservation(self, free_index: torch.Tensor, /) -> None:
        """Take back what was lent by place."""
        ...


@runtime_checkable
class StateCosts(Capability, Protocol):
    """Does a slot of recurrent state take memory from which token slots are lent?"""

    def mamba_slot_full_token_cost(self) -> int:
        """How many token slots a state slot costs."""
        ...


@runtime_checkable
class AuxiliaryStates(Capability, Protocol):
    """Does the pool keep snapshots of states by slot?"""

    def fork_from(self, src: Any, /) -> torch.Tensor | None:
        """New slots with the snapshots of those given; None where there are not enough."""
        ...

    def has_snapshot(self, index: Any, /) -> bool:
        """Whether a slot holds one."""
        ...


@runtime_checkable
class CompressedExports(Capability, Protocol):
    """Are compressed keys and the states behind them exported as regions of their own?"""

    def get_c128_kv_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """Pointers, bytes and bytes per page of the keys compressed most."""
        ...

    def get_c4_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The same of the states of the keys compressed least."""
        ...
