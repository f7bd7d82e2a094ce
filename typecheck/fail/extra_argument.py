"""One argument more than callers pass."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import Movable


class Labelled:
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, label: str) -> None: ...


_: type[Movable] = Labelled  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
