"""Doors inside a captured graph: no operation whose shape, or whose host, waits for the data.

The kit's tensors are in host memory and stand for a device's. What is looked at is the path that a
device takes: it runs under a dispatch mode and a function mode, and a pool with a shorter way for
host memory leaves it there, as it does while a graph is traced. One that decides so once, when it
is built, is built again for the law under a dispatch mode (`watched`). No law here hands over what
a pool may read by contract (`seq_lens_cpu`, `prefix_lens_cpu`, counts): those are lists and
integers, or host tensors of calls that run outside a captured graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.protocols import IndexerCapable, KVPool, MLALatent, Movable

from ..bench import Bench
from ..broken import LawBroken
from ..kv_bench import KVBench, LayerStub
from ..latent_bench import LatentBench, has_index_keys
from ..law import has_layers, law
from .leaf import OWNED

B = TypeVar("B", bound=Bench)

_SYNCING = {
    "aten::nonzero",
    "aten::masked_select",
    "aten::_local_scalar_dense",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::equal",
    "aten::allclose",
    "aten::bincount",
}
_INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}
_TO_HOST = frozenset(
    {
        *("tolist", "numpy", "__array__", "item"),
        *("__bool__", "__int__", "__float__", "__index__"),
    }
)
"""Members that give the host values. Of host memory some read without any operation."""


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
        if name == "aten::repeat_interleave" and (kwargs or {}).get("output_size") is None:
            raise _DataDependent(f"{name} without output_size")
        return func(*args, **(kwargs or {}))


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # as above
    """Changes nothing; a pool sees that it is there."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _RefuseToHost(TorchFunctionMode):
    """Raises where a tensor's values become Python's or numpy's."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")  # descriptors of every kind come by here
        if name in _TO_HOST:
            raise _DataDependent(f"Tensor.{name}()")
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
    run_traced("set_kv_buffer(loc=[0, 2, -1], ...)", lambda: bench.write(loc, k, v))


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
    run_traced("move_kv_cache([0, 2, -1], [1, 1, 1])", lambda: bench.pool.move_kv_cache(tgt, src))


@law(
    "sync-free.latent",
    MLALatent,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="as for writes: fixed shapes in set_mla_kv_buffer and get_mla_kv_buffer too",
)
def latent(bench: LatentBench) -> None:
    """Writing and reading rows in two parts runs no operation that depends on the locations."""
    parts, loc = bench.split(bench.latent_rows(3)), torch.tensor([0, 2, -1])
    layer, read = LayerStub(bench.layer_ids[0]), bench.pool.get_mla_kv_buffer
    run_traced("set_mla_kv_buffer(loc=[0, 2, -1], ...)", lambda: bench.write_parts(loc, *parts))
    run_traced("get_mla_kv_buffer(loc=[0, 2, -1])", lambda: read(layer, loc))


@law(
    "sync-free.indexer",
    IndexerCapable,
    applies=has_index_keys,
    needs=OWNED,
    check="seq_len_sum and max_seq_len are on the host: shapes follow from them, not from tensors",
)
def indexer(bench: LatentBench) -> None:
    """Setting and gathering index keys runs no operation that depends on slots or lengths."""
    rows, loc = bench.index_rows(3), torch.tensor([0, 2, -1])
    lens, pages = torch.tensor([1, 1]), torch.tensor([[1], [2]])
    layer_id, read = bench.index_layers[0], bench.pool.get_index_k_scale_buffer
    run_traced("set_index_k_scale_buffer(...)", lambda: bench.write_index(loc, *rows))
    run_traced("get_index_k_scale_buffer(...)", lambda: read(layer_id, lens, pages, 2, 1))


def watched(bench: B) -> B:
    """A bench with a fresh subject on it that was built as for a device.

    For subjects that choose between host memory and a device's when they are built.
    """
    see: Any = _Watching  # torch has no types here
    with see():
        return bench.sibling(bench.another())


def traced(call: str, action: Callable[[], Tensor]) -> Tensor:
    """What came of it, run where an operation that depends on data raises."""
    results: list[Tensor] = []
    run_traced(call, lambda: results.append(action()))
    return results[0]


def run_traced(call: str, action: Callable[[], object]) -> None:
    """Run it where an operation that depends on data raises.

    :raises LawBroken: naming the first such operation.
    """
    try:
        refuse: Any = _RefuseDataDependent  # torch has no types here
        with refuse(), _RefuseToHost():
            action()
    except _DataDependent as found:
        raise LawBroken(call, expected="fixed-shape operations only", got=str(found)) from None
