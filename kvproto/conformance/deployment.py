"""A model planned and built on a platform, with a record of what the platform was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kvproto.configurator import BuildError, BuiltPools, Core, PlanError, PoolPlan, build, plan
from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    KVLeaf,
    LeafRequest,
    Platform,
    PlatformCapabilities,
    SlotAllocator,
    SubsystemPlatform,
    SubsystemPools,
    SubsystemRequest,
    supports,
)
from kvproto.reference import CORE

from .allocated import allocation_of
from .blame import blamed
from .specs.models import ModelRequest

__all__ = ["Deployer", "Deployment", "Watched", "subsystem_of"]

Build: TypeAlias = Callable[[PoolPlan, Platform, Core], BuiltPools]
Plan: TypeAlias = Callable[..., PoolPlan]


@dataclass(slots=True)
class Watched:
    """A platform on another device than its own, and all that it was asked for and gave."""

    platform: Platform
    device_type: str
    leaves: list[tuple[LeafRequest, KVLeaf | Declined]] = field(default_factory=list)
    allocators: list[tuple[AllocatorRequest, SlotAllocator | Declined]] = field(
        default_factory=list
    )

    @property
    def name(self) -> str:
        """The platform's own."""
        return self.platform.name

    @property
    def capabilities(self) -> PlatformCapabilities:
        """The platform's own, but for the device."""
        return replace(self.platform.capabilities, device_type=self.device_type)

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """The platform's leaf, noted; at real sizes only where a page of it is no memory."""
        leaf = self._kept_off(request) or self.platform.build_leaf(request)
        self.leaves.append((request, leaf))
        return leaf

    def _kept_off(self, request: LeafRequest) -> Declined | None:
        """Why the leaf is not to be built, whose rows might take all memory there is."""
        if self.device_type != "meta":
            return None
        page = self.platform.build_leaf(replace(request, size=request.page_size))
        if isinstance(page, Declined):
            return page
        elsewhere = allocation_of(page, request.page_size).devices - {"meta"}
        return Declined("leaves for the meta device take memory") if elsewhere else None

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        """The platform's allocator, noted."""
        allocator = self.platform.build_allocator(request)
        self.allocators.append((request, allocator))
        return allocator

    @property
    def declined(self) -> str:
        """Why the last part was declined that no other may stand in for; "" where none was."""
        asked = (*self.leaves, *self.allocators)
        reasons = [
            answer.reason
            for request, answer in asked
            if isinstance(answer, Declined) and request.fallback == "none"
        ]
        return reasons[-1] if reasons else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What became of a model on a platform: it was refused, or planned, or built as well.

    `refusal` is why there is no plan, `failure` why there are no pools although there is one.
    """

    watched: Watched
    plan: PoolPlan | None = None
    refusal: str = ""
    built: BuiltPools | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Deployer:
    """A factory of deployments on one platform; core, planner and builder are the real ones."""

    platform: Platform
    core: Core = CORE
    plan: Plan = plan
    build: Build = build

    def __call__(self, request: object, /) -> Deployment | Declined:
        """The model on the platform, or what cannot be asked of it.

        Only a platform that says it builds what a model needs, or is to be refused for want of
        it, answers for the plan; everything else that cannot be planned was asked by the kit.
        """
        if not isinstance(request, ModelRequest):
            return Declined("a platform is asked for whole models")
        watched = _watched(self.platform, request.device)
        try:
            made = self.plan(
                request.shape,
                request.options,
                request.parallel,
                request.budget,
                platform=watched.capabilities,
                pp_rank=request.pp_rank,
            )
        except PlanError as error:
            needed = subsystem_of(request)
            if needed and needed not in watched.capabilities.subsystems:
                return Deployment(watched=watched, refusal=str(error))
            return Declined(f"cannot be planned: {error}")
        return self._built(made, watched, request)

    def _built(
        self, made: PoolPlan, watched: Watched, request: ModelRequest
    ) -> Deployment | Declined:
        try:
            return Deployment(
                watched=watched, plan=made, built=self.build(made, watched, self.core)
            )
        except Exception as error:  # whatever a platform raises is what the laws are to find
            if watched.declined:
                return Declined(watched.declined)
            failure = str(error) if isinstance(error, BuildError) else blamed(error).told
            if request.device == "meta":  # real sizes are a service to whoever can be built there
                return Declined(f"is not built on the meta device: {failure}")
            return Deployment(watched=watched, plan=made, failure=failure)


@dataclass(slots=True)
class WatchedSubsystems(Watched):
    """The same of a platform that builds more than leaves."""

    builder: SubsystemPlatform | None = None

    def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
        """The platform's."""
        assert self.builder is not None  # `_watched`
        return self.builder.build_subsystem(request)


def _watched(platform: Platform, device_type: str) -> Watched:
    if supports(platform, SubsystemPlatform):
        return WatchedSubsystems(platform, device_type, builder=platform)
    return Watched(platform, device_type)


def subsystem_of(request: ModelRequest) -> str:
    """The subsystem without which the model has no pool; "" where leaves are enough."""
    shape, options = request.shape, request.options
    if shape.compressed is not None:
        return "compressed_pool"
    if shape.index is not None and shape.index.scheme == "pooled_rows":
        return "qsa_pool"
    if options.pool_memory == "unified":
        return "unified_buffer"
    return "page_shards" if options.kv_sharding == "pages" else ""
