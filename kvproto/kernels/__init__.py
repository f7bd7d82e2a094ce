"""Data-plane operations: one module each, torch tensors in and out, no pool in sight."""

from __future__ import annotations

from .fp8 import FP8_DTYPES, to_fp8
from .locations import check_locations
from .move_rows import move_rows
from .store_rows import store_rows

__all__ = ["FP8_DTYPES", "check_locations", "move_rows", "store_rows", "to_fp8"]
