"""Platforms, cores and planners with one fault each, under which whole models are built wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch

from kvproto.configurator import CPU, BuiltPools, Core, PlanError, PoolPlan, build, plan
from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    HybridComposite,
    HybridPoolRequest,
    LeafRequest,
    PlatformCapabilities,
    SWAAllocatorRequest,
    SWAPoolRequest,
    supports,
)
from kvproto.reference import build_reference_leaf
from kvproto.reference.build_allocator import build_reference_allocator
from kvproto.reference.core import ReferenceCore
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.platforms import cpu

from ..check_platform import check_deployments
from ..deployment import Deployer
from .registry import MUTANTS, Mutant

T = TypeVar("T")

REVIEW = "the design review of sgl-project/sglang's platform pool classes"


def wrong(name: str, law: str, *models: str, of: Deployer, source: str = "") -> None:
    """Register what builds these deployments wrong."""
    asked = {"specs": list(models)}
    MUTANTS.append(Mutant(name, law, source, of, asked, check_deployments))


class WrongPlatform:
    """A platform on the CPU, right where a subclass does not say otherwise."""

    name = "wrong"
    capabilities: PlatformCapabilities = CPU

    def build_leaf(self, request: LeafRequest, /) -> Any:
        """The reference's."""
        return build_reference_leaf(request)

    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        """The reference's."""
        return build_reference_allocator(request)


def platform(law: str, *models: str, source: str = "") -> Callable[[type[T]], type[T]]:
    """Register a class of platforms."""

    def register(cls: type[T]) -> type[T]:
        made: Any = cls()
        wrong(cls.__name__, law, *models, of=Deployer(made), source=source)
        return cls

    return register


def core(law: str, *models: str, source: str = "") -> Callable[[type[T]], type[T]]:
    """Register a class of cores, over reference leaves."""

    def register(cls: type[T]) -> type[T]:
        made: Any = cls()
        wrong(cls.__name__, law, *models, of=Deployer(cpu(), core=made), source=source)
        return cls

    return register


@platform("builder.builds", "llama-page64-fp8")
class RaisesForWhatItDoesNotServe(WrongPlatform):
    def build_leaf(self, request: LeafRequest, /) -> Any:
        if request.quant_scheme != "none":
            raise NotImplementedError(request.quant_scheme)
        return super().build_leaf(request)


@platform("builder.device", "llama-page1")
class NamesOneDeviceOfItsType(WrongPlatform):
    capabilities = replace(CPU, device_type="cuda:0")


@platform("builder.builds", "llama-page16-hnd")
class BuildsAnotherLayoutAndSaysSo(WrongPlatform):
    def build_leaf(self, request: LeafRequest, /) -> Any:
        return super().build_leaf(replace(request, layout="nhd"))


@platform("builder.leaves", "gpt_oss-page1", "gemma2-page1", source="sgl-project/sglang#27679")
class OwnLeafAtTheTopOnly(WrongPlatform):
    """Its own class for the first leaf of a model, the reference's for the one nested beside it."""

    nested = False

    def build_leaf(self, request: LeafRequest, /) -> Any:
        leaf: Any = super().build_leaf(request)
        own: type = leaf.__class__
        if not self.nested:
            leaf.__class__ = type("OwnLeaf", (own,), {})
        self.nested = True
        return leaf

    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        self.nested = False  # the last thing that is built of a model
        return super().build_allocator(request)


@core("builder.leaves", "gpt_oss-page16-hnd")
class BuildsTheWindowLeafItself(ReferenceCore):
    def pool(self, request: Any, build_leaf: Any, /) -> Any:
        def first_only(asked: LeafRequest) -> Any:
            window = isinstance(request, SWAPoolRequest) and asked is request.window
            return build_reference_leaf(asked) if window else build_leaf(asked)

        return super().pool(request, first_only)


@core("builder.allocators", "gpt_oss-page64-fp8", source="sgl-project/sglang#27679")
class HardCodesTheWindowAllocator(ReferenceCore):
    def allocator(self, request: Any, kvcache: Any, table: Any, door: Any, /) -> Any:
        def full_only(asked: AllocatorRequest) -> Any:
            pair = isinstance(request, SWAAllocatorRequest)
            window = pair and asked.size == request.size_swa
            return build_reference_allocator(asked) if window else door(asked)

        return super().allocator(request, kvcache, table, full_only)


class _Declines(WrongPlatform):
    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        return Declined("slots are the core's")


def forgets_notes(made: PoolPlan, on: Any, by: Core) -> BuiltPools:
    return replace(build(made, on, by), notes=())


wrong(
    "ForgetsWhoDeclined",
    "builder.allocators",
    "llama-page1",
    of=Deployer(_Declines(), build=forgets_notes),
)


def drops_the_pair(made: PoolPlan, on: Any, by: Core) -> BuiltPools:
    pools = build(made, on, by)
    return pools if pools.views is None else replace(pools, views=replace(pools.views, swa=None))


def binds_the_leaf(made: PoolPlan, on: Any, by: Core) -> BuiltPools:
    pools = build(made, on, by)
    hybrid, views = pools.pool, pools.views
    assert views is not None
    assert supports(hybrid, HybridComposite)
    leaf: Any = hybrid.full_kv_pool
    return replace(pools, views=replace(views, movable=leaf))


wrong(
    "TakesPairsForFlatPools",
    "builder.views",
    "gpt_oss-page1",
    of=Deployer(cpu(), build=drops_the_pair),
)
wrong(
    "BindsAPartForTheWhole",
    "builder.views",
    "qwen3_next-page64-fp8",
    of=Deployer(cpu(), build=binds_the_leaf),
)


@platform("builder.subsystems", "deepseek_v4-page128-mxfp8")
class OffersWhatItDoesNotBuild(WrongPlatform):
    capabilities = replace(CPU, subsystems=frozenset({"compressed_pool"}))


@platform("builder.subsystems", "gpt_oss-page16-unified")
class OffersABufferWithoutADoor(WrongPlatform):
    capabilities = replace(CPU, subsystems=frozenset({"unified_buffer"}))


def refuses_without_a_name(*asked: Any, **named: Any) -> PoolPlan:
    try:
        return plan(*asked, **named)
    except PlanError as error:
        raise PlanError("model_type", error.value, "not supported", "use another model") from None


wrong(
    "RefusesWithoutAName",
    "builder.subsystems",
    "deepseek_v4-page1",
    of=Deployer(cpu(), plan=refuses_without_a_name),
    source=REVIEW,
)


@core("builder.builds", "gpt_oss-page16-hnd", "gpt_oss-page64-fp8", source=REVIEW)
class HandsTheFullLeafTheCombinedSize(ReferenceCore):
    def pool(self, request: Any, build_leaf: Any, /) -> Any:
        if isinstance(request, SWAPoolRequest):
            both = request.full.size + request.window.size
            request = replace(request, full=replace(request.full, size=both))
        return super().pool(request, build_leaf)


def plans_the_combined_size(*asked: Any, **named: Any) -> PoolPlan:
    made = plan(*asked, **named)
    if not isinstance(made.pool, SWAPoolRequest):
        return made
    both: Any = {"size": made.tokens.full + made.tokens.window}
    pool = replace(made.pool, full=replace(made.pool.full, **both))
    return replace(made, pool=pool, allocator=replace(made.allocator, **both))


wrong(
    "PlansTheCombinedSize",
    "builder.slots",
    "gpt_oss-page1",
    of=Deployer(cpu(), plan=plans_the_combined_size),
    source=REVIEW,
)


@core("builder.spaces", "gpt_oss-page16-hnd", source=REVIEW)
class LendsTheCombinedSize(ReferenceCore):
    def allocator(self, request: Any, kvcache: Any, table: Any, door: Any, /) -> Any:
        if isinstance(request, SWAAllocatorRequest):
            request = replace(request, size=request.size + request.size_swa)
        return super().allocator(request, kvcache, table, door)


@platform("builder.builds", "llama-page16-hnd")
class HasAPageTooMany(WrongPlatform):
    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        return super().build_allocator(replace(request, size=request.size + request.page_size))


class Understated(PageAllocator):
    """Says that it is a page smaller than it is."""

    def __init__(self, size: int, page_size: int, *rest: Any) -> None:
        super().__init__(size, page_size, *rest)
        self.size -= page_size


@platform("builder.spaces", "llama-page16-hnd")
class LendsAPageTooMany(WrongPlatform):
    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        size, page = request.size + request.page_size, request.page_size
        return Understated(size, page, torch.int64, request.device, None, request.need_sort)


@core("builder.state", "qwen3_next-page64-fp8")
class KeepsStateInTheModelsType(ReferenceCore):
    def pool(self, request: Any, build_leaf: Any, /) -> Any:
        if isinstance(request, HybridPoolRequest):
            state = replace(request.state, ssm_dtype=request.state.conv_dtype)
            request = replace(request, state=state)
        return super().pool(request, build_leaf)


@core("builder.table", "llama-page64-draft")
class HasNoRowsForRequestsToCome(ReferenceCore):
    def request_pool(self, request: Any, state: Any, /) -> Any:
        return super().request_pool(replace(request, pre_alloc_size=0), state)


def counts_no_draft(*asked: Any, **named: Any) -> PoolPlan:
    made = plan(*asked, **named)
    drafts = tuple(share for share in made.shares if share.part != "draft")
    return replace(made, shares=drafts)


wrong(
    "CountsNoDraft",
    "builder.bytes",
    "llama-page64-draft",
    of=Deployer(cpu(), plan=counts_no_draft),
)


def counts_every_stage_from_zero(*asked: Any, **named: Any) -> PoolPlan:
    made = plan(*asked, **named)
    pool: Any = made.pool
    return replace(made, pool=replace(pool, start_layer=0))


wrong(
    "CountsEveryStageFromZero",
    "builder.layers",
    "llama-page16-stage2",
    of=Deployer(cpu(), plan=counts_every_stage_from_zero),
)
