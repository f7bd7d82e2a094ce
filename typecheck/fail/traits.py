"""A value outside its domain, and a match that forgot one."""

from __future__ import annotations

from typing import assert_never

from kvproto.protocols import IdSpace, PoolTraits

PoolTraits(kind="mqa", layout="nhd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def forgets_device_slot(space: IdSpace) -> str:
    match space:
        case "physical":
            return "as they lie"
        case "virtual":
            return "by the page table"
        case _:
            assert_never(space)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
