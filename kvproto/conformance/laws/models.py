"""Random sequences of calls against a plain-Python model, shrunk to the shortest that fails."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import Any

from kvproto.protocols import (
    HiSparseAllocator,
    HiSparseAllocatorRequest,
    PagedAllocator,
    ShardedAllocatorRequest,
    SlotAllocator,
    StateRequestPool,
    SWAAllocator,
    SWAAllocatorRequest,
)

from ..account_bench import AllocBench
from ..hisparse_bench import HiSparseBench
from ..law import law
from ..pair_bench import PairBench
from ..state_rows_bench import StateRowsBench
from ..window_bench import PureBench
from .alloc import ACCOUNTS
from .hisparse_alloc import PLACED
from .state_rows import SLOTS
from .swa_alloc import MAPPED


def _small(request: Any) -> bool:
    """Larger pages are the same to a model, and slower; without hypothesis there is no model."""
    return bool(request.page_size <= 4) and find_spec("hypothesis") is not None


def _small_and_alone(request: Any) -> bool:
    """Pairs have models of their own."""
    return _small(request) and not isinstance(
        request, (SWAAllocatorRequest, HiSparseAllocatorRequest, ShardedAllocatorRequest)
    )


@law(
    "alloc.model",
    SlotAllocator,
    applies=_small_and_alone,
    needs=ACCOUNTS,
    check="replay the calls of the finding; each is what the allocator was called with",
)
def alloc_model(bench: AllocBench) -> None:
    """Whatever is called in whatever order, accounts are those of a plain-Python model."""
    from ..models import SlotsMachine, play

    bench.note = _coverage(play(SlotsMachine, bench), SlotsMachine.RULES)


@law(
    "swa-alloc.model",
    SWAAllocator,
    PagedAllocator,
    applies=_small,
    needs=MAPPED,
    check="replay the calls of the finding; each is what the allocator was called with",
)
def pair_model(bench: PairBench) -> None:
    """Whatever is called in whatever order, both spaces and the peers are those of a model."""
    from ..models import PairMachine, play

    bench.note = _coverage(play(PairMachine, bench), PairMachine.RULES)


@law(
    "pure-swa.model",
    SWAAllocator,
    applies=_small,
    needs=("pure-swa.identity",),
    check="replay the calls of the finding; each is what the allocator was called with",
)
def pure_model(bench: PureBench) -> None:
    """Whatever is called in whatever order, the one space and its peers are those of a model."""
    from ..models import PureMachine, play

    bench.note = _coverage(play(PureMachine, bench), PureMachine.RULES)


@law(
    "hisparse-alloc.model",
    HiSparseAllocator,
    PagedAllocator,
    applies=_small,
    needs=PLACED,
    check="replay the calls of the finding; each is what the allocator was called with",
)
def device_model(bench: HiSparseBench) -> None:
    """Whatever is called in whatever order, ids, device slots and buffers are those of a model."""
    from ..models import DeviceMachine, play

    bench.note = _coverage(play(DeviceMachine, bench), DeviceMachine.RULES)


def _with_hypothesis(_request: object) -> bool:
    return find_spec("hypothesis") is not None


@law(
    "state-rows.model",
    StateRequestPool,
    applies=_with_hypothesis,
    needs=SLOTS,
    check="replay the calls of the finding; each is what the pool was called with",
)
def state_rows_model(bench: StateRowsBench) -> None:
    """Whatever is called in whatever order, rows and state slots have the owners of a model."""
    from ..models import StateRowsMachine, play

    bench.note = _coverage(play(StateRowsMachine, bench), StateRowsMachine.RULES)


def _coverage(ran: Counter[str], rules: frozenset[str]) -> str:
    """For the report: which rules of the machine ran, and how often."""
    missed = sorted(rules - set(+ran))
    note = f"{sum(ran.values())} steps, {len(+ran)} of {len(rules)} rules ran"
    return f"{note}; not {', '.join(missed)}" if missed else note
