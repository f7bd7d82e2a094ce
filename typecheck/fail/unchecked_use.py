"""A consumer that uses what it has not asked for."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import KVLeaf, SWACapable, Transferable


def unbound(swa: SWACapable | None, loc: Tensor) -> Tensor:
    return swa.translate_loc_from_full_to_swa(loc)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]


def unasked(pool: KVLeaf) -> None:
    pool.get_contiguous_buf_infos()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def written(pool: Transferable) -> None:
    pool.page_size = 16  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def by_keyword(pool: KVLeaf) -> None:
    pool.get_key_buffer(layer_id=0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
