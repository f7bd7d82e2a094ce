# pyright: basic, reportMissingImports=false
"""Every script on composites and state pools; `composite_scripts.py` runs them."""

from __future__ import annotations

from tests.interop import (  # noqa: F401  (each registers its scripts)
    composite_descriptors,
    composite_faults,
    composite_rows,
    recurrent_state,
)
from tests.interop.composite_scripts import observed

__all__ = ["observed"]
