"""Which fp8 index keys beside latents are, and how they lie in a page: as the device reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvproto.protocols import PlatformCapabilities

from .elements import planned_dtype
from .geometry import IndexGeometry
from .plan_error import PlanError

if TYPE_CHECKING:
    import torch

__all__ = ["index_keys"]

_TILE = 16


def index_keys(
    index: IndexGeometry, rows: torch.dtype, page: int, platform: PlatformCapabilities
) -> dict[str, Any]:
    """Fields of the leaf's request, beside latents of that type in pages of so many tokens.

    :raises PlanError: for pages that are not whole tiles where the device reads tiles.
    """
    if platform.index_keys == "plain" and rows.itemsize > 1:
        return {"index_dtype": rows}
    asked: dict[str, Any] = {}
    if platform.fp8_variant == "e4m3fnuz":
        asked["index_dtype"] = planned_dtype("float8_e4m3fnuz")
    keys = page // index.kpool
    if platform.index_layout == "token_rows" or keys == 1:
        return asked
    if keys % _TILE:
        raise PlanError(
            "page_size",
            page,
            f"devices of type '{platform.device_type}' read index keys in tiles of {_TILE}, and a "
            f"page has {keys}",
            f"give {index.kpool}, or a multiple of {_TILE * index.kpool}",
        )
    return asked | {"index_layout": platform.index_layout}
