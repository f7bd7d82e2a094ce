"""What a pool owns and does not send, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import cast

from torch import Tensor

from kvproto.protocols import (
    Composite,
    FP4Workspace,
    KVLeaf,
    RequestRingSWA,
    StatePool,
    declares,
    supports,
)

from .manifest import LeftOut

__all__ = ["left_out_of"]


def left_out_of(pool: object) -> tuple[LeftOut, ...]:
    """Bytes of a pool and of its parts that no region has, by name."""
    return tuple(each for owner in _parts(pool) for each in _of_one(owner) if each.nbytes)


def _parts(pool: object) -> Iterator[object]:
    yield pool
    if supports(pool, Composite):
        yield from (leaf for _, leaf in pool.leaves())


def _of_one(owner: object) -> Iterator[LeftOut]:
    name = type(owner).__name__.partition("[")[0]
    if supports(owner, FP4Workspace):
        yield LeftOut(
            name=f"{name}.get_dequant_workspace()",
            nbytes=sum(each.nbytes for each in owner.get_dequant_workspace()),
            reason="scratch of the layer that is read next",
        )
    nvfp4 = declares(owner, quant_scheme="nvfp4") and not supports(owner, Composite)
    if nvfp4 and supports(owner, KVLeaf):
        yield LeftOut(
            name=f"{name}'s scales of whole layers",
            nbytes=2 * 4 * owner.layer_num,
            reason="come with the model, not with its tokens: each side loads them",
        )
    if supports(owner, StatePool):
        yield from _scratch(name, owner.mamba_cache)
    if supports(owner, RequestRingSWA) and owner.swa_valid_from is not None:
        yield LeftOut(
            name=f"{name}.swa_valid_from",
            nbytes=owner.swa_valid_from.nbytes,
            reason="an account of the request rows of this process, which their owner writes",
        )


def _scratch(name: str, cache: object) -> Iterator[LeftOut]:
    """What verification of drafts leaves in a state pool; a slot's state is complete without."""
    if not is_dataclass(cache):
        return
    for each in fields(cache):
        if each.name.startswith("intermediate_"):
            held = cast("Tensor | list[Tensor]", getattr(cache, each.name))
            tensors = [held] if isinstance(held, Tensor) else held
            yield LeftOut(
                name=f"{name}.mamba_cache.{each.name}",
                nbytes=sum(tensor.nbytes for tensor in tensors),
                reason="scratch of a running verification, by request row",
            )
