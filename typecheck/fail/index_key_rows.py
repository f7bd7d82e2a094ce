"""Keys in rows of their own are set without scales: `IndexerCapable` callers pass both at once."""

from __future__ import annotations

from kvproto.adapters.npu.dsa import NPUScaledDSALeaf
from kvproto.protocols import IndexerCapable, IndexKeyRows, ScaledIndexKeyRows
from kvproto.reference import DSALeaf

rows: type[ScaledIndexKeyRows] = NPUScaledDSALeaf
pages: type[IndexerCapable] = NPUScaledDSALeaf  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
other: type[IndexKeyRows] = DSALeaf  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
