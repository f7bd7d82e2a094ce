"""Where sglang's real pools and ours differ, as data: one record a call, by section of the probe.

python -m tests.interop.differences [--write]      compare docs/differences.md with it, or write it
"""

from __future__ import annotations

from .accounts import ACCOUNTS
from .allocators import ALLOCATORS, REQUESTS
from .block_scaled import BLOCK_SCALES
from .commits import COMMITS
from .composites import COMPOSITES
from .difference import Difference, Shown
from .faults import FAULTS
from .latent import LATENT
from .layouts import LAYOUTS
from .npu import NPU
from .pooled import POOLED
from .sparse import SPARSE

__all__ = ["DIFFERENCES", "Difference", "Shown"]

DIFFERENCES: dict[str, tuple[Difference, ...]] = {
    "faults": FAULTS,
    "latent": LATENT,
    "layouts": LAYOUTS,
    "commits": COMMITS,
    "sparse": SPARSE,
    "pooled": POOLED,
    "block scales": BLOCK_SCALES,
    "composites": COMPOSITES,
    "allocator breaks": ALLOCATORS,
    "request pools": REQUESTS,
    "account breaks": ACCOUNTS,
    "npu": NPU,
}
"""Section of the probe's answers -> its records, in the order of the page."""
