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
    """As `ChecksCopies.check_cpu_copy`, where the pool has it."""
    if supports(pool, ChecksCopies):
        pool.check_cpu_copy(copy, indices, req_pool_index=req_pool_index)
