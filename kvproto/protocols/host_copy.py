"""Tokens that leave the device with their request and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HostCopyable"]


@runtime_checkable
class HostCopyable(Capability, Protocol):
    """Can a retracted request's tokens be copied to host memory and restored bit for bit?

    Asked of the pool. Where ids are virtual the calls go through the allocator, which has the
    same two methods and translates. The copy is in the pool's own form: only the pool that made
    it reads it.
    """

    @property
    def cpu_copy_carries_mamba(self) -> bool:
        """Whether the copy holds the recurrent state too; False leaves that to the request pool."""
        ...

    def get_cpu_copy(
        self,
        indices: Tensor,
        /,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> Any:
        """Copy out the token slots `indices` of every layer, with scales and index keys.

        `mamba_indices` names the request's state slots, `req_pool_index` its row for state kept
        per request; pools without such state ignore them. Complete when it returns.
        """
        ...

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        /,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Restore a copy into as many slots, not necessarily those it was made from.

        Token `i` of the copy goes to `indices[i]`, unless that is 0 or below: then it is
        dropped. No other row changes. Complete when it returns.

        :raises ValueError: for a copy that holds recurrent state where `mamba_indices` is None;
            nothing is restored then.
        """
        ...
