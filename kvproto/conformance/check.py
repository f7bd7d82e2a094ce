"""Run the laws on what a factory builds."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Sequence

import torch

from kvproto._bad_input import BadInput
from kvproto.protocols import DeclaresRegions, Declined, KVPool, supports

from . import laws as _registered
from .bench import Bench
from .broken import LawBroken
from .capabilities import capability_named, verdicts
from .factory import Factory, build
from .law import LAWS, Law, laws_named
from .report import Finding, LawResult, Report
from .specs import SPECS, Spec, spec_named

__all__ = ["check_pool"]

Progress = Callable[[str], None]


def check_pool(
    factory: Factory,
    *,
    laws: Sequence[str] | None = None,
    capabilities: Sequence[str] | None = None,
    specs: Sequence[str] | None = None,
    target: str = "",
    progress: Progress = lambda _line: None,
) -> Report:
    """Build a pool for every spec the factory serves and hold each to every law that binds it.

    `laws` (ids or families), `capabilities` (protocol names) and `specs` (names) narrow the
    run; None is all. Every law gets a fresh pool. `progress` is told each spec's name.

    :raises BadInput: for a name that does not exist, and when no pool can be had from the
        factory, or none on the CPU.
    """
    chosen = _narrowed(
        list(LAWS.values()) if laws is None else laws_named(list(laws)), capabilities
    )
    asked = list(SPECS) if specs is None else [spec_named(name) for name in specs]
    served, declined = _ask(factory, asked)
    _require_cpu(served[0][1], served[0][0])
    results: list[LawResult] = []
    for spec, pool in served:
        progress(spec.name)
        results += _run_spec(factory, spec, pool, chosen)
    first = served[0][1]
    return Report(
        target=target or _name_of(factory),
        pool=type(first).__qualname__,
        oracle="declared regions" if supports(first, DeclaresRegions) else "read doors",
        served=tuple(spec.name for spec, _ in served),
        capabilities=tuple(verdicts(first)),
        results=tuple(results),
        declined=tuple(declined),
    )


def _narrowed(chosen: list[Law], capabilities: Sequence[str] | None) -> list[Law]:
    if capabilities is None:
        return chosen
    wanted = {capability_named(name) for name in capabilities}
    return [law for law in chosen if wanted & set(law.capabilities)]


def _ask(
    factory: Factory, specs: Iterable[Spec]
) -> tuple[list[tuple[Spec, KVPool]], list[tuple[str, str]]]:
    served: list[tuple[Spec, KVPool]] = []
    declined: list[tuple[str, str]] = []
    for spec in specs:
        answer = build(factory, spec.request)
        if isinstance(answer, Declined):
            declined.append((spec.name, answer.reason))
        else:
            served.append((spec, answer))
    if not served:
        reasons = "; ".join(sorted({reason for _, reason in declined}))
        raise BadInput(f"the factory declined every request, so no law ran: {reasons}")
    return served, declined


def _require_cpu(pool: KVPool, spec: Spec) -> None:
    if not spec.request.layer_num or not supports(pool, KVPool):
        return
    try:
        where = pool.get_key_buffer(spec.request.start_layer).device
    except Exception:  # a door that fails is what the laws will find, not the input's fault
        return
    if where.type != torch.device("cpu").type:
        raise BadInput(
            f"the pool's buffers are on {where}, the request said device='cpu': the kit reads "
            "bytes in this process; build the pool on request.device"
        )


def _run_spec(factory: Factory, spec: Spec, pool: KVPool, laws: Iterable[Law]) -> list[LawResult]:
    results: list[LawResult] = []
    failed: set[str] = set()
    for law in laws:
        if not law.applies(spec.request) or not all(supports(pool, c) for c in law.capabilities):
            continue
        blocker = next((need for need in law.needs if need in failed), "")
        if blocker:
            results.append(LawResult(law, spec.name, "blocked", blocked_by=blocker))
            continue
        result = _run(factory, spec, law)
        if result.status == "failed":
            failed.add(law.id)
        results.append(result)
    return results


def _run(factory: Factory, spec: Spec, law: Law) -> LawResult:
    pool = build(factory, spec.request)
    if isinstance(pool, Declined):
        raise BadInput(f"the factory served {spec.name} once and then declined: {pool.reason}")
    try:
        law.run(Bench(spec.request, pool))
    except LawBroken as broken:
        return LawResult(
            law, spec.name, "failed", Finding(broken.call, broken.expected, broken.got)
        )
    except Exception as error:  # whatever a pool raises where the law allows nothing is a finding
        return LawResult(law, spec.name, "failed", _unexpected(law, error))
    return LawResult(law, spec.name, "passed")


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


def _name_of(factory: Factory) -> str:
    module = getattr(factory, "__module__", "")
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    return f"{module}:{name}" if module else name


_ = _registered  # imported for the laws it registers
