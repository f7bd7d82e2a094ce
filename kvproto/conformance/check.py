"""The kit as one function: a factory in, a report out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvproto._bad_input import BadInput
from kvproto.protocols import Declined, KVPool, supports

from . import laws as _registered
from .capabilities import capability_named, verdicts
from .factory import Factory, build
from .fallback import TWINS
from .found import LAWS_VERSION, Found, Terms, name_of, report_of
from .isolated import Isolation
from .law import LAWS, Law, laws_named
from .on_device import device_named, spec_on
from .over_leaves import COMPOSITES, binds_over_leaves, leaf_name, over_leaves
from .place import device_of
from .report import LawResult, Report, Subject
from .row_access import RowAccess
from .runner import Built, How, Progress, run_laws
from .specs import SPECS, Spec, spec_named

__all__ = ["Answers", "ask", "check_pool", "examined", "held", "laws_chosen", "something"]


def check_pool(
    factory: Factory,
    *,
    laws: Sequence[str] | None = None,
    capabilities: Sequence[str] | None = None,
    specs: Sequence[str] | None = None,
    claims: Iterable[str] | None = None,
    cannot: Mapping[str, str] | None = None,
    expected: Mapping[str, Any] | None = None,
    laws_version: str = LAWS_VERSION,
    row_access: RowAccess | None = None,
    seed: int = 0,
    isolate: Isolation = "hazardous",
    device: str = "cpu",
    target: str = "",
    progress: Progress = lambda _done, _total, _name: None,
) -> Report:
    """Build a subject for every spec the factory serves and hold each to every law that binds it.

    `laws` (ids or families), `capabilities` (protocol names) and `specs` (names) narrow the
    run; None is all. `claims` names the capabilities the vendor says its pools have, `cannot`
    those it says they lack, with reasons; where `claims` is given, detection must agree with it
    both ways. `expected` maps a law's id to the reason why it is known to fail, or to a mapping
    of `reason` and `until`. Laws newer than `laws_version` are advisory. `row_access` reads and
    writes what pools store that do not declare their regions. `seed` is that of the laws' random
    choices. Where kernels write outside their buffers, `isolate="every"` runs each law in a child
    of its own, not only those that provoke it. `device` is where pools are asked for and looked
    at: anything but the CPU is read and written through copies to the host, and no law has a child
    there. Laws about host memory alone are not asked on it.

    :raises BadInput: for a name that does not exist, an expectation that cannot be met, and
        when nothing can be had from the factory, or nothing on the device.
    """
    terms = Terms.of(claims, cannot, expected, laws_version)
    chosen = laws_chosen(laws, capabilities)
    where = device_named(device)
    named = SPECS if specs is None else [spec_named(name) for name in specs]
    asked = [spec_on(spec, where) for spec in named]
    found = something(examined(factory, asked, chosen, How(seed, isolate), row_access, progress))
    target = target or name_of(factory)
    return report_of(
        found, chosen, terms, target=target, device=str(where), seed=seed, row_access=row_access
    )


def laws_chosen(laws: Sequence[str] | None, capabilities: Sequence[str] | None) -> list[Law]:
    """The laws of these ids, families and capabilities; None is all.

    :raises BadInput: for a name that does not exist.
    """
    named = list(LAWS.values()) if laws is None else laws_named(list(laws))
    return _narrowed(named, capabilities)


def examined(
    factory: Factory,
    specs: Iterable[Spec],
    laws: Sequence[Law],
    how: How,
    row_access: RowAccess | None,
    progress: Progress,
) -> Found:
    """What laws about pools find on what the factory builds; nothing where it declines all.

    :raises BadInput: when the factory gives what is no pool, or one that is not on the device.
    """
    answers = ask(factory, specs, composites=any(map(binds_over_leaves, laws)))
    return held(answers, laws, how, row_access, progress)


@dataclass(frozen=True, slots=True)
class Answers:
    """What a factory built for geometries, and what it declined.

    It is looked at for which laws bind it: each runs on a pool that is built for it alone, so that
    answers serve any number of runs.
    """

    built: tuple[Built, ...]
    subjects: tuple[Subject, ...]
    declined: tuple[tuple[str, str], ...]


def something(found: Found) -> Found:
    """The same.

    :raises BadInput: where the factory declined everything.
    """
    if not found.subjects:
        raise BadInput(f"the factory declined every request, so no law ran: {found.reasons}")
    return found


def held(
    answers: Answers,
    laws: Sequence[Law],
    how: How,
    row_access: RowAccess | None,
    progress: Progress = lambda _done, _total, _name: None,
) -> Found:
    """What the laws find on what was built."""
    built = [replace(each, row_access=row_access) for each in answers.built]
    results = run_laws(built, laws, how, progress)
    return Found(
        [_seen(subject, results) for subject in answers.subjects],
        results,
        list(answers.declined),
        [subject for subject in answers.subjects if not subject.over],
    )


def _narrowed(chosen: list[Law], capabilities: Sequence[str] | None) -> list[Law]:
    if capabilities is None:
        return chosen
    wanted = {capability_named(name) for name in capabilities}
    return [law for law in chosen if wanted & set(law.capabilities)]


def ask(factory: Factory, specs: Iterable[Spec] = SPECS, *, composites: bool) -> Answers:
    """What the factory builds; with `composites`, those it declines are built over its leaves.

    The reasons of both are told where neither gave a composite.

    :raises BadInput: when the factory gives what is no pool, or one that is not on the device.
    """
    built: list[Built] = []
    compose = over_leaves(factory)
    declined: list[tuple[str, str]] = []
    for spec in specs:
        answer = build(factory, spec.request)
        if isinstance(answer, Declined):
            reason = answer.reason
            if composites and isinstance(spec.request, COMPOSITES):
                ours = build(compose, spec.request)
                if isinstance(ours, Declined):
                    reason = f"{reason}; {ours.reason}"
                else:
                    built.append(Built(spec, ours, compose, leaf_name(ours)))
            declined.append((spec.name, reason))
        else:
            _require_device(answer, spec)
            built.append(Built(spec, answer, factory))
    return Answers(tuple(built), _subjects(built), tuple(declined))


def _require_device(pool: object, spec: Spec) -> None:
    if not supports(pool, KVPool):
        return
    try:
        where = pool.get_key_buffer(pool.start_layer).device
    except Exception:  # a door that fails is what the laws will find, not the input's fault
        return
    asked = device_of(spec.request)
    if where != asked:
        raise BadInput(
            f"the pool's buffers are on {where}, the request said device='{asked}': the kit reads "
            "bytes there; build the pool on request.device"
        )


def _subjects(built: Sequence[Built]) -> tuple[Subject, ...]:
    by_name: dict[str, list[Built]] = {}
    for each in built:
        by_name.setdefault(each.name, []).append(each)
    return tuple(
        Subject(
            name,
            tuple(each.spec.name for each in group),
            tuple(verdicts(group[0].subject)),
            over=group[0].over,
        )
        for name, group in by_name.items()
    )


def _seen(subject: Subject, results: Iterable[LawResult]) -> Subject:
    fell_back = [
        TWINS in r.note
        for r in results
        if r.subject == subject.name and r.status == "passed-by-fallback"
    ]
    return replace(subject, by_fallback=False in fell_back, by_twins=True in fell_back)


_ = _registered  # imported for the laws it registers
