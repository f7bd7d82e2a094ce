"""Whether a host copy fits, asked of every part before anything is written to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kvproto.protocols import supports
from kvproto.protocols._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ChecksCopies", "check_if_it_can"]


@runtime_checkable
class ChecksCopies(Capability, Protocol):
    """Can it say whether a host copy fits, and write nothing?

    Pools of the reference can; of others a copy that does not fit shows when it is loaded.
    """

    def check_cpu_copy(
        self, kv_cache_cpu: Any, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` would raise before it writes."""
        ...


def check_if_it_can(
    pool: object, copy: object, indices: Tensor, *, req_pool_index: int | None = None
) -> None:
    """As `ChecksCopies.check_cpu_copy`, where the pool has it for copies of its own form."""
    if supports(pool, ChecksCopies) and _knows_its_copies(type(pool)):
        pool.check_cpu_copy(copy, indices, req_pool_index=req_pool_index)


def _knows_its_copies(cls: type) -> bool:
    """Whether no subclass made copies its own without a check of its own."""
    check, *doors = (_heir(cls, f"{name}_cpu_copy") for name in ("check", "get", "load"))
    return all(check <= door for door in doors)


def _heir(cls: type, name: str) -> int:
    """How far up the class that defines a member is; past the last where none does."""
    bases = cls.__mro__
    return next((i for i, base in enumerate(bases) if name in vars(base)), len(bases))
