"""Doors inside a captured graph: no operation whose shape, or whose host, waits for the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.protocols import KVPool, Movable

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from .leaf import OWNED

_SYNCING = {
    "aten::nonzero",
    "aten::masked_select",
    "aten::_local_scalar_dense",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
}
_INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}


class _DataDependent(Exception):
    """An operation that a captured graph cannot hold."""


class _RefuseDataDependent(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Raises at the first operation that would make the host wait for device data."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func._schema.name
        if name in _SYNCING or (name in _INDEXED and _has_mask(args[1])):
            raise _DataDependent(f"{name}{' with a boolean mask' if name in _INDEXED else ''}")
        return func(*args, **(kwargs or {}))


def _has_mask(indices: Any) -> bool:
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


@law(
    "sync-free.write",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="mask by where and clamp; buf[loc[loc > 0]] has a shape that depends on the data",
)
def write(bench: KVBench) -> None:
    """A write runs no operation whose shape or control flow depends on the locations."""
    k, v = bench.pair(3)
    loc = torch.tensor([0, 2, -1])
    _run_traced("set_kv_buffer(loc=[0, 2, -1], ...)", lambda: bench.write(loc, k, v))


@law(
    "sync-free.move",
    Movable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="as for writes: fixed shapes, no .item(), no boolean index",
)
def move(bench: KVBench) -> None:
    """A move runs no operation whose shape or control flow depends on the locations."""
    tgt, src = torch.tensor([0, 2, -1]), torch.tensor([1, 1, 1])
    _run_traced("move_kv_cache([0, 2, -1], [1, 1, 1])", lambda: bench.pool.move_kv_cache(tgt, src))


def _run_traced(call: str, action: Callable[[], object]) -> None:
    try:
        with _RefuseDataDependent():  # type: ignore[no-untyped-call]
            action()
    except _DataDependent as found:
        raise LawBroken(call, expected="fixed-shape operations only", got=str(found)) from None
