"""The leaves of a deployment, each with what it was asked to hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

from torch import Tensor
from typing_extensions import TypeForm

from kvproto.configurator import BuiltPools, PoolPlan
from kvproto.protocols import (
    DSALeafRequest,
    HybridComposite,
    HybridPoolRequest,
    KVLeaf,
    LeafRequest,
    NoOpLeafRequest,
    RequestRingSWA,
    SWAComposite,
    SWAPoolRequest,
    SWARingPoolRequest,
    supports,
)

from .broken import LawBroken
from .kv_bench import KVBench
from .stored_rows import Side

__all__ = ["Part", "Planned", "planned_parts"]

_Capability = TypeVar("_Capability")

Space: TypeAlias = Literal["full", "window", "rings"]
"""Which slots its rows are at: those that callers write to, their peers, or rings of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A leaf under its role; `whole` is the pool that it is a part of, or itself.

    `layer_ids[i]` is the global id of its i-th layer, `tokens` the slots that the plan's tokens
    take in it.
    """

    role: str
    request: LeafRequest
    leaf: KVLeaf
    whole: Any
    layer_ids: tuple[int, ...]
    tokens: int
    space: Space = "full"
    drafts: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The same with real dtypes in its request, on a bench that goes by the leaf's own ids."""

    planned: Planned
    request: LeafRequest
    bench: KVBench

    @property
    def leaf(self) -> KVLeaf:
        """The leaf itself."""
        return self.planned.leaf

    @property
    def name(self) -> str:
        """What findings call it."""
        return f"the {self.planned.role} leaf"

    @property
    def least_elements(self) -> int:
        """Of a tensor that the plan counts: one a slot, or what a ring per request has."""
        request = self.request
        if not isinstance(request, DSALeafRequest) or not request.has_tails:
            return self.bench.slots
        ring = request.tail_rows * request.tail_length * request.index_head_dim
        return min(self.bench.slots, ring)

    @property
    def looked_at(self) -> Sequence[int]:
        """The leaf's own ids of the layers whose read doors are looked at.

        All of them, but where a door makes a copy of all rows: there the first and the last.
        """
        own = self.bench.layer_ids
        return [own[0], own[-1]] if self.bench.reads_copies and own else own

    @property
    def places(self) -> Sequence[tuple[int, int]]:
        """Global id, and the leaf's own, of every layer."""
        return list(zip(self.planned.layer_ids, self.bench.layer_ids, strict=False))

    def door(self, side: Side, layer_id: int) -> tuple[str, Tensor]:
        """A read door of the leaf, by its own id of a layer: the call, and what it shows."""
        call = f"get_{side}_buffer({layer_id}) of {self.name}"
        read = self.leaf.get_key_buffer if side == "key" else self.leaf.get_value_buffer
        return call, read(layer_id)


def planned_parts(plan: PoolPlan, built: BuiltPools, ranks: int) -> Iterator[Planned]:
    """Every leaf of the model's pool and of the draft's.

    `ranks` split a request's tokens; a draft has those of all of them.

    :raises LawBroken: where a pool is not the composite that was planned.
    """
    tokens = plan.tokens
    match plan.pool:
        case SWARingPoolRequest() as rings:
            pool: Any = _as(built.pool, RequestRingSWA, "rings")
            yield from _pair(rings.pair, pool, tokens.capacity, _ring_slots(plan), "rings")
        case SWAPoolRequest() as pair:
            pool = _as(built.pool, SWAComposite, "a window pair")
            yield from _pair(pair, pool, tokens.capacity, tokens.window, "window")
        case HybridPoolRequest() as asked:
            leaf = _as(built.pool, HybridComposite, "a hybrid").full_kv_pool
            yield Planned(
                role="attention",
                request=asked.full,
                leaf=leaf,
                whole=built.pool,
                layer_ids=asked.full_attention_layer_ids,
                tokens=tokens.capacity,
            )
        case NoOpLeafRequest() | None:
            pass
        case asked:
            yield _alone("only", asked, built.pool, tokens.capacity)
    every = tokens.capacity * ranks
    match plan.draft:
        case None:
            pass
        case SWAPoolRequest() as pair:
            slots = tokens.window if plan.draft_windows == "shared" else every
            pool = _as(built.draft, SWAComposite, "a draft with windows")
            yield from _pair(pair, pool, every, slots, "window", drafts=True)
        case HybridPoolRequest():
            raise LawBroken("plan(...).draft", expected="slots of tokens alone", got="a hybrid")
        case asked:
            yield _alone("draft", asked, built.draft, every, drafts=True)


def _ring_slots(plan: PoolPlan) -> int:
    """Of a ring for each row of the table, the padding row's among them, but for its first page."""
    asked, rows = cast("SWARingPoolRequest", plan.pool), plan.request_pool
    count = rows.size + rows.pre_alloc_size + 1
    return count * asked.swa_req_ring_size - asked.pair.window.page_size


def _alone(
    role: str, asked: LeafRequest, pool: object, tokens: int, *, drafts: bool = False
) -> Planned:
    leaf = _as(pool, KVLeaf, type(asked).__name__)
    ids = tuple(range(asked.start_layer, asked.end_layer))
    return Planned(
        role=role,
        request=asked,
        leaf=leaf,
        whole=leaf,
        layer_ids=ids,
        tokens=tokens,
        drafts=drafts,
    )


def _pair(
    asked: SWAPoolRequest,
    pair: Any,
    full: int,
    window: int,
    space: Space,
    *,
    drafts: bool = False,
) -> Iterator[Planned]:
    of = "draft's " if drafts else ""
    yield Planned(
        role=f"{of}full",
        request=asked.full,
        leaf=pair.full_kv_pool,
        whole=pair,
        layer_ids=asked.full_attention_layer_ids,
        tokens=full,
        drafts=drafts,
    )
    yield Planned(
        role=f"{of}window",
        request=asked.window,
        leaf=pair.swa_kv_pool,
        whole=pair,
        layer_ids=asked.swa_attention_layer_ids,
        tokens=window,
        space=space,
        drafts=drafts,
    )


def _as(pool: object, protocol: TypeForm[_Capability], what: str) -> _Capability:
    if supports(pool, protocol):
        return pool
    name: str = getattr(protocol, "__name__", str(protocol))
    raise LawBroken(
        "build(plan, platform)", expected=f"a {name} for {what}", got=type(pool).__name__
    )
