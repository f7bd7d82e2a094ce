"""The retract path passes `mamba_indices=` and `req_pool_index=`; this pool takes neither."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import HostCopyable
from typecheck.vendors.acme import AcmePool


class NoKeywords:
    cpu_copy_carries_mamba = False
    load_cpu_copy = AcmePool.load_cpu_copy

    def get_cpu_copy(self, indices: Tensor) -> list[Tensor]:
        return [indices]


_: type[HostCopyable] = NoKeywords  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
