"""Which requests a factory of one plain class serves."""

from __future__ import annotations

from typing import TypeGuard

from kvproto.protocols import BLOCK_SCALED, MHALeafRequest

__all__ = ["is_plain"]


def is_plain(request: object, /) -> TypeGuard[MHALeafRequest]:
    """K and V rows by slot, without block scales."""
    if not isinstance(request, MHALeafRequest):
        return False
    return request.layout == "nhd" and request.quant_scheme not in BLOCK_SCALED
