"""The part of staging memory that one transfer has."""

from __future__ import annotations

from dataclasses import dataclass

from .fence import Fence
from .reservation import PageNumbers

__all__ = ["Staged"]


@dataclass(slots=True, eq=False)
class Staged:
    """`nbytes` of it from `begin` on, which is None while there is no room.

    By link: the receiver's pages as its plan counts them, and where in the part its bytes begin.
    `fence` tells when the conversion, once it has begun, is done.
    """

    lists: list[PageNumbers]
    places: tuple[int, ...]
    nbytes: int
    begin: int | None = None
    fence: Fence | None = None
