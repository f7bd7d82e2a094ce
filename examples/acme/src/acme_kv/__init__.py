"""A vendor's pool that shares no base class with any pool of kvproto's."""

from __future__ import annotations

from .pool import AcmePool, build

__all__ = ["AcmePool", "build"]
