"""A deployment on the bench: its leaves and its state, each looked at for what was asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import cast

from kvproto.configurator import BuiltPools, PoolPlan
from kvproto.configurator.realise import realised
from kvproto.protocols import StatePoolRequest

from .bench import Bench
from .benches import BENCHES, bench_for
from .broken import LawBroken
from .deployment import Deployment, subsystem_of
from .kv_bench import KVBench
from .parts import Part, Planned, planned_parts
from .row_access import RowAccess
from .specs.models import ModelRequest
from .state_bench import StateBench

__all__ = ["DeploymentBench", "is_built", "on_cpu"]


class DeploymentBench(Bench):
    """A model on a platform. Laws that are kept leave its pools as they found them.

    So one deployment serves all laws: what they look at is where bytes are, not what is in them.
    """

    request: ModelRequest
    pool: Deployment

    def __init__(self, request: ModelRequest, pool: Deployment, seed: int = 0) -> None:
        super().__init__(request, pool, seed)
        self._row_access: RowAccess | None = None

    def look_through(self, row_access: RowAccess) -> None:
        """Of the platform's leaves."""
        self._row_access = row_access

    def offers(self, capabilities: Sequence[type], law_id: str) -> bool:
        """The laws are about the platform, which is there."""
        return True

    @property
    def plan(self) -> PoolPlan:
        """What was to be built."""
        assert self.pool.plan is not None  # `is_built`
        return self.pool.plan

    @property
    def built(self) -> BuiltPools:
        """What was built.

        :raises LawBroken: where nothing was, which the law `builder.builds` finds before others.
        """
        if self.pool.built is None:
            raise LawBroken("build(plan, platform)", expected="pools", got=self.pool.failure)
        return self.pool.built

    @cached_property
    def parts(self) -> list[Part]:
        """Every leaf: one, a pair's two, a hybrid's, and those of the draft.

        :raises LawBroken: where a pool is not the composite that was planned.
        """
        ranks = self.request.parallel.dcp_size
        return [self._part(each) for each in planned_parts(self.plan, self.built, ranks)]

    def _part(self, planned: Planned) -> Part:
        request = realised(planned.request, self.request.device)
        bench = bench_for(request, planned.leaf, self.seed, self._row_access)
        self.looks_through(bench)
        return Part(planned, request, cast("KVBench", bench))

    @cached_property
    def state(self) -> StateBench | None:
        """The recurrent state on a bench of its own; None where none was planned."""
        if self.plan.state is None:
            return None
        asked: StatePoolRequest = realised(self.plan.state, self.request.device)
        return StateBench(asked, self.built.state, self.seed)


def is_built(bench: object, /) -> bool:
    """For laws about what was built of leaves; nothing was where the platform offers no way to."""
    if not isinstance(bench, DeploymentBench) or bench.pool.plan is None:
        return False
    return not subsystem_of(bench.request)


def on_cpu(request: object, /) -> bool:
    """For laws that write and read bytes."""
    return isinstance(request, ModelRequest) and request.device == "cpu"


BENCHES[ModelRequest] = DeploymentBench  # here, since it looks at leaves on all the others
