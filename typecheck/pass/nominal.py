"""A class may also say by inheritance which protocol it is for."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import Movable


class Declared(Movable):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None: ...


declared: type[Movable] = Declared


def run() -> None:
    assert isinstance(Declared(), Movable)
    assert issubclass(Declared, Movable)
