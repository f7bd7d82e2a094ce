"""Pools of every kind that the kit knows, and the bytes that they hold, found without asking."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from kvproto.adapters.npu.platform import on_cpu
from kvproto.adapters.rocm.platform import gfx942_on_cpu
from kvproto.conformance.specs import SPECS
from kvproto.protocols import Declined, LeafRequest, Transferable, supports
from kvproto.reference.build_any import build_reference
from kvproto.transfer import Descriptors, PoolManifest, describe
from kvproto.transfer.demo.rows import fill_at_random

__all__ = ["BUILDERS", "built", "copy", "fill", "held", "snapshot", "storages"]


def built(build: Callable[[Any], Any], request: Any) -> Any:
    """The pool, or None where none is built or it exports nothing."""
    pool = build(request)
    return None if isinstance(pool, Declined) or not supports(pool, Transferable) else pool


def _builders() -> Iterator[tuple[str, Callable[[], Any]]]:
    for spec in SPECS:
        yield f"reference-{spec.name}", partial(built, build_reference, spec.request)
        if isinstance(spec.request, LeafRequest):
            for platform in (on_cpu(), gfx942_on_cpu()):
                named = f"{platform.name}-{spec.name}"
                yield named, partial(built, platform.build_leaf, spec.request)


def _serving() -> dict[str, Callable[[], Any]]:
    return {name: build for name, build in _builders() if build() is not None}


BUILDERS = _serving()
"""By name, what builds a pool that exports pages: reference ones, and those of two platforms."""


def held(owner: object, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """Every tensor that can be reached from an object, whatever owns it in between."""
    seen = set() if seen is None else seen
    if id(owner) in seen or isinstance(owner, (str, bytes, int, float, type, torch.dtype)):
        return
    seen.add(id(owner))
    if isinstance(owner, torch.Tensor):
        yield owner
    elif isinstance(owner, dict):
        for value in cast("dict[object, object]", owner).values():
            yield from held(value, seen)
    elif isinstance(owner, (list, tuple, set, frozenset)):
        for value in cast("list[object]", owner):
            yield from held(value, seen)
    else:
        slots = [
            name for kind in type(owner).__mro__ for name in kind.__dict__.get("__slots__", ())
        ]
        for value in (*vars(owner).values(),) if hasattr(owner, "__dict__") else ():
            yield from held(value, seen)
        for name in slots:
            yield from held(getattr(owner, name, None), seen)


def storages(pool: object) -> dict[int, int]:
    """Address -> bytes of every storage that a pool holds; a 0-d constant is no storage of rows."""
    found = [tensor.untyped_storage() for tensor in held(pool) if tensor.dim()]
    return {each.data_ptr(): each.nbytes() for each in found if each.nbytes()}


def fill(pool: object, seed: int) -> None:
    """Bytes of a pool's own in every region; what else it holds, a mapping say, stays."""
    fill_at_random(describe(pool), seed)


def snapshot(manifest: PoolManifest) -> list[list[np.ndarray[Any, Any]]]:
    """By region and base: uint8 `[items, bytes of an item]`, copied."""
    return [
        [
            np.frombuffer(
                ctypes.string_at(base, each.region.page_count * each.region.page_stride), np.uint8
            ).reshape(each.capacity, -1)
            for base in each.region.bases
        ]
        for part in manifest.pools
        for each in part.regions
    ]


def copy(moved: Descriptors) -> None:
    """What an engine does with descriptors: local bytes to the remote addresses."""
    for (source, length), (target, other) in zip(moved.local, moved.remote, strict=True):
        assert length == other
        ctypes.memmove(int(target), int(source), int(length))
