"""`mamba_indices` is spelled otherwise. Only pyright sees it: mypy ignores names in protocols."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import HostCopyable
from typecheck.vendors.acme import AcmePool


class Renamed:
    cpu_copy_carries_mamba = False
    load_cpu_copy = AcmePool.load_cpu_copy

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_slots: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> list[Tensor]:
        return [indices]


_: type[HostCopyable] = Renamed  # pyright: ignore[reportAssignmentType]
