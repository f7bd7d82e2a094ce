"""Nobody awaits a pool: the move would never happen."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import Movable


class Later:
    async def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor) -> None: ...


_: type[Movable] = Later  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
