"""Run laws on the subjects a factory builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from kvproto._bad_input import BadInput
from kvproto.protocols import Declined

from .bench import Bench
from .benches import bench_for
from .blame import blamed
from .broken import LawBroken
from .factory import Factory, build
from .fallback import TWINS
from .guarded_memory import GuardedMemory
from .isolated import Isolation, run_in_child
from .law import Law
from .needs import in_order_of_needs
from .not_asked import NotAsked
from .on_device import looking_at
from .one_thread import one_thread
from .over_leaves import binds_over_leaves, broken_by_leaves, relies_on
from .place import on_host
from .report import Finding, LawResult, LawStatus
from .row_access import RowAccess
from .specs import Spec

__all__ = ["Built", "How", "Progress", "run_laws"]

_Verdict: TypeAlias = tuple[LawStatus, Finding | None, str]

Progress = Callable[[int, int, str], None]
"""Told how many geometries are done, of how many, and which is next."""


@dataclass(frozen=True, slots=True)
class Built:
    """A subject that the factory built for a spec.

    `over` is set on composites of the kit's own: the class of the vendor's leaves in them.
    `row_access` is the vendor's way to their bytes. `called` is the name it goes by, where that is
    not its class.
    """

    spec: Spec
    subject: object
    factory: Factory
    over: str = ""
    row_access: RowAccess | None = None
    called: str = ""

    @property
    def name(self) -> str:
        """The name of its class, and of the leaves' where it is not the vendor's."""
        if self.called:
            return self.called
        own = type(self.subject).__qualname__
        return f"{own.split('[', 1)[0]} over {self.over}" if self.over else own


@dataclass(frozen=True, slots=True)
class How:
    """`seed` is that of the laws' random choices, `isolate` says which run in a child."""

    seed: int
    isolate: Isolation


def run_laws(
    built: Sequence[Built], laws: Sequence[Law], how: How, progress: Progress
) -> list[LawResult]:
    """Every law on every subject it binds, each on a fresh one, after the laws it needs.

    One that needs a failed law, or one that was blocked itself, is blocked by the failed one.
    """
    laws = in_order_of_needs(laws)
    results: list[LawResult] = []
    with one_thread():
        for done, each in enumerate(built):
            progress(done, len(built), each.spec.name)
            results += _run_spec(each, laws, how, broken_by_leaves(results) if each.over else {})
    progress(len(built), len(built), "")
    return results


def _run_spec(
    built: Built, laws: Iterable[Law], how: How, by_leaves: Mapping[str, str]
) -> list[LawResult]:
    results: list[LawResult] = []
    down: dict[str, str] = {}  # laws that failed or were blocked: the law that failed
    bench = bench_for(built.spec.request, built.subject, row_access=built.row_access)
    bound = [law for law in laws if _binds(law, built, bench)]
    together = _judged_together(built, bound, how)
    for law in bound:
        place = (law, built.name, built.spec.name, how.seed)
        blocker = next((down[need] for need in law.needs if need in down), "")
        blocker = blocker or next((by_leaves[f] for f in relies_on(law) if f in by_leaves), "")
        if blocker:
            down[law.id] = blocker
            results.append(LawResult(*place, "blocked", note=f"blocked by {blocker}"))
            continue
        status, finding, note = together.get(law.id) or _judged(built, law, how)
        if status == "failed":
            down[law.id] = law.id
        results.append(LawResult(*place, status, finding, note))
    return results


def _binds(law: Law, built: Built, bench: Bench) -> bool:
    if built.over and not binds_over_leaves(law):
        return False
    if not isinstance(bench, law.bench):
        return False
    return law.applies(bench.request) and law.when(bench) and bench.offers(law.capabilities, law.id)


def _judged_together(built: Built, laws: Iterable[Law], how: How) -> dict[str, _Verdict]:
    """The hazardous laws in one child, if all of them are kept there: a fork costs more than a law.

    Where one is not, or the child dies, none of its verdicts counts: each law gets its own child.
    """
    hazardous = [law for law in laws if law.hazardous]
    if how.isolate != "hazardous" or not hazardous or not on_host(built.spec.request):
        return {}
    try:
        verdicts = run_in_child(
            lambda: {law.id: _judge_guarded(built, law, how.seed) for law in hazardous}
        )
    except LawBroken:
        return {}
    return {} if any(status == "failed" for status, _, _ in verdicts.values()) else verdicts


def _judged(built: Built, law: Law, how: How) -> _Verdict:
    # A device does not survive a fork: its laws run here, the hazardous ones too.
    alone = how.isolate == "every" or law.hazardous
    if not alone or not on_host(built.spec.request):
        return _judge(built, law, how.seed)
    try:
        return run_in_child(partial(_judge_guarded, built, law, how.seed))
    except LawBroken as broken:
        return "failed", Finding(broken.call, broken.expected, broken.got), ""


def _judge_guarded(built: Built, law: Law, seed: int) -> _Verdict:
    memory = GuardedMemory()
    guarded = replace(built, factory=memory.guarding(built.factory))
    status, finding, note = _judge(guarded, law, seed)
    damage = memory.damage()
    if finding is None and damage:
        return "failed", Finding(law.claim, "writes inside the pool's buffers", damage), ""
    return status, finding, note


def _judge(built: Built, law: Law, seed: int) -> _Verdict:
    if law.host_only and not on_host(built.spec.request):
        return "not asked", None, f"of host memory alone: {law.host_only}"
    with looking_at(built.spec.request, built.factory) as factory:
        return _judge_there(replace(built, factory=factory), law, seed)


def _judge_there(built: Built, law: Law, seed: int) -> _Verdict:
    factory, spec = built.factory, built.spec
    pool = _build_again(factory, spec)
    try:
        bench = bench_for(spec.request, pool, seed, built.row_access)
        bench.another = partial(_build_again, factory, spec)
        bench.build = partial(build, factory)
        with bench.fallback.noting_twins():
            bench.prepare()
            law.run(bench)
    except LawBroken as broken:
        return "failed", Finding(broken.call, broken.expected, broken.got), ""
    except NotAsked as unasked:
        return "not asked", None, unasked.reason
    except Exception as error:  # whatever a pool raises where the law allows nothing is a finding
        return "failed", _unexpected(law, error), ""
    return _passed(bench), None, _note(bench)


def _build_again(factory: Factory, spec: Spec) -> Any:
    pool = build(factory, spec.request)
    if isinstance(pool, Declined):
        raise BadInput(f"the factory served {spec.name} once and then declined: {pool.reason}")
    return pool


def _passed(bench: Bench) -> LawStatus:
    fell_back = bench.by_fallback or bench.fallback.twins
    return "passed-by-fallback" if fell_back else "passed"


def _note(bench: Bench) -> str:
    return "; ".join(filter(None, (bench.note, TWINS if bench.fallback.twins else "")))


def _unexpected(law: Law, error: Exception) -> Finding:
    found = blamed(error)
    return Finding(found.call or law.claim, "no exception", found.told)
