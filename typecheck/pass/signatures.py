"""A method may name what is passed by position as it likes, and take more than is passed."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from kvproto.protocols import HostCopyable, Movable


class OtherNames:
    def move_kv_cache(self, target: Tensor, source: Tensor) -> None: ...


class MoreOptions:
    def move_kv_cache(
        self, tgt_loc: Tensor, src_loc: Tensor, stream: object = None, *, wait: bool = True
    ) -> None: ...


class TakesAll:
    cpu_copy_carries_mamba = False

    def move_kv_cache(self, *args: Any, **kwargs: Any) -> None: ...

    def get_cpu_copy(self, indices: Tensor, **kwargs: object) -> list[Tensor]:
        return [indices]

    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *args: Any, **kwargs: Any) -> None:
        return None


class WiderArguments:
    def move_kv_cache(self, tgt_loc: object, src_loc: object) -> None: ...


other_names: type[Movable] = OtherNames
more_options: type[Movable] = MoreOptions
takes_all: type[Movable] = TakesAll
wider: type[Movable] = WiderArguments


def run() -> None:
    for pool in (OtherNames(), MoreOptions(), TakesAll(), WiderArguments()):
        assert isinstance(pool, Movable)
    assert not isinstance(TakesAll(), HostCopyable), "by position, get_cpu_copy takes one argument"
