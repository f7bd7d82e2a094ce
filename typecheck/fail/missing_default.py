"""Callers without recurrent state leave the keywords out; this pool insists on one."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import HostCopyable
from typecheck.vendors.acme import AcmePool


class Insists:
    cpu_copy_carries_mamba = False
    load_cpu_copy = AcmePool.load_cpu_copy

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None,
        req_pool_index: int | None = None,
    ) -> list[Tensor]:
        return [indices]


_: type[HostCopyable] = Insists  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
