"""Run laws on the subjects a factory builds."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kvproto._bad_input import BadInput
from kvproto.protocols import Declined, supports

from .bench import Bench
from .benches import bench_for
from .broken import LawBroken
from .factory import Factory, build
from .isolated import run_in_child
from .law import Law
from .report import Finding, LawResult, LawStatus
from .specs import Spec

__all__ = ["Built", "Progress", "run_laws"]

Progress = Callable[[int, int, str], None]
"""Told how many geometries are done, of how many, and which is next."""


@dataclass(frozen=True, slots=True)
class Built:
    """A subject that the factory built for a spec."""

    spec: Spec
    subject: object

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.subject).__qualname__


def run_laws(
    factory: Factory, built: Sequence[Built], laws: Sequence[Law], seed: int, progress: Progress
) -> list[LawResult]:
    """Every law on every subject it binds, each on a fresh one."""
    results: list[LawResult] = []
    for done, each in enumerate(built):
        progress(done, len(built), each.spec.name)
        results += _run_spec(factory, each, laws, seed)
    progress(len(built), len(built), "")
    return results


def _run_spec(factory: Factory, built: Built, laws: Iterable[Law], seed: int) -> list[LawResult]:
    results: list[LawResult] = []
    failed: set[str] = set()
    for law in laws:
        if not _binds(law, built):
            continue
        place = (law, built.name, built.spec.name, seed)
        blocker = next((need for need in law.needs if need in failed), "")
        if blocker:
            results.append(LawResult(*place, "blocked", note=f"blocked by {blocker}"))
            continue
        status, finding = _judged(factory, built.spec, law, seed)
        if status == "failed":
            failed.add(law.id)
        results.append(LawResult(*place, status, finding))
    return results


def _binds(law: Law, built: Built) -> bool:
    if not issubclass(type(bench_for(built.spec.request, built.subject)), law.bench):
        return False
    return law.applies(built.spec.request) and all(
        supports(built.subject, capability) for capability in law.capabilities
    )


def _judged(factory: Factory, spec: Spec, law: Law, seed: int) -> tuple[LawStatus, Finding | None]:
    judge = partial(_judge, factory, spec, law, seed)
    if not law.hazardous:
        return judge()
    try:
        return run_in_child(judge)
    except LawBroken as broken:
        return "failed", Finding(broken.call, broken.expected, broken.got)


def _judge(factory: Factory, spec: Spec, law: Law, seed: int) -> tuple[LawStatus, Finding | None]:
    pool = build(factory, spec.request)
    if isinstance(pool, Declined):
        raise BadInput(f"the factory served {spec.name} once and then declined: {pool.reason}")
    try:
        bench = bench_for(spec.request, pool, seed)
        law.run(bench)
    except LawBroken as broken:
        return "failed", Finding(broken.call, broken.expected, broken.got)
    except Exception as error:  # whatever a pool raises where the law allows nothing is a finding
        return "failed", _unexpected(law, error)
    return _passed(bench), None


def _passed(bench: Bench) -> LawStatus:
    return "passed-by-fallback" if bench.by_fallback else "passed"


def _unexpected(law: Law, error: Exception) -> Finding:
    """Blame the first frame outside the kit: the pool's member that was called."""
    call, where = law.claim, ""
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.dirname(__file__) in frame.filename:
            call, where = law.claim, ""
        else:
            call = f"{frame.name}(...)" if not where else call
            where = f" ({os.path.basename(frame.filename)}:{frame.lineno} in {frame.name})"
    text = str(error).strip().split("\n", 1)[0]
    return Finding(call, "no exception", f"{type(error).__name__}: {text}{where}")
