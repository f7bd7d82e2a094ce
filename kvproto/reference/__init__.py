"""Reference pools: what a consumer uses in place of its engine's own, and a vendor wraps."""

from __future__ import annotations

from .build import build_reference_leaf
from .mha import MHALeaf

__all__ = ["MHALeaf", "build_reference_leaf"]
