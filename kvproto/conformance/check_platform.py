"""The kit as one function of a platform: whole models planned, built and looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvproto._bad_input import BadInput
from kvproto.configurator import BuildError, find_platform
from kvproto.protocols import Declined, Platform

from .capabilities import CapabilityVerdict, verdicts
from .check import LAWS_VERSION, aged, name_of, pinned_version
from .declarations import ClaimsBench, declaration_results
from .deployment import Deployer, Deployment
from .deployment_bench import DeploymentBench
from .expectations import apply_expectations, claims_of, expected_failures
from .factory import Factory, named
from .isolated import Isolation
from .law import LAWS, Law, laws_named
from .one_thread import one_thread
from .report import LawResult, Report, Subject
from .row_access import RowAccess
from .runner import Built, How, Progress, run_laws
from .specs import Spec
from .specs.models import MODEL_SPECS, ModelRequest, deployment_named

__all__ = ["check_deployments", "check_platform", "load_platform", "platform_laws"]


def platform_laws() -> list[Law]:
    """The laws about what is built on a platform, in their order."""
    return [law for law in LAWS.values() if issubclass(law.bench, DeploymentBench)]


def load_platform(name: str) -> Platform:
    """The platform of an entry point's name, or that `module:attribute` names.

    What a module names is a platform, or a function without arguments that gives one.

    :raises BadInput: when there is no such thing, or it cannot be used here.
    """
    if ":" not in name:
        try:
            return find_platform(name)
        except BuildError as error:
            raise BadInput(str(error)) from error
    found: Any = named(name, "module:platform, for example acme.platform:acme")
    if callable(found) and not isinstance(found, Platform):
        try:
            found = found()
        except Exception as error:
            raise BadInput(f"{name}() failed: {type(error).__name__}: {error}") from error
    if isinstance(found, Declined):
        raise BadInput(f"{name}: cannot be used here: {found.reason}")
    if isinstance(found, type) or not isinstance(found, Platform):
        raise BadInput(f"{name}: gave {type(found).__name__}, which is no Platform")
    return found


def check_platform(platform: Platform, *, target: str = "", **asked: Any) -> Report:
    """Plan every model of the matrix, build it on the platform on the CPU, hold it to the laws.

    Leaves and allocators come from the platform, the rest from the core. What it declines, and
    what cannot be planned, is reported with its reason. The arguments are those of
    `check_deployments`; claims are about the pools that are built.

    :raises BadInput: as `check_pool` does.
    """
    return check_deployments(
        Deployer(platform), target=target or f"--platform {platform.name}", **asked
    )


def check_deployments(
    factory: Factory,
    *,
    target: str = "",
    laws: Sequence[str] | None = None,
    specs: Sequence[str] | None = None,
    claims: Iterable[str] | None = None,
    cannot: Mapping[str, str] | None = None,
    expected: Mapping[str, Any] | None = None,
    laws_version: str = LAWS_VERSION,
    row_access: RowAccess | None = None,
    seed: int = 0,
    isolate: Isolation = "hazardous",
    progress: Progress = lambda _done, _total, _name: None,
) -> Report:
    """The same of a factory that answers a `ModelRequest` with a `Deployment`, or `Declined`.

    :raises BadInput: for a name that does not exist, an expectation that cannot be met, and when
        every model was declined.
    """
    said, known = claims_of(claims, cannot), expected_failures(expected)
    pinned = pinned_version(laws_version)
    chosen = _chosen(laws)
    asked = list(MODEL_SPECS) if specs is None else [deployment_named(s) for s in specs]
    results: list[LawResult] = []
    served: dict[str, list[str]] = {}
    pools: list[Subject] = []
    declined: list[tuple[str, str]] = []
    for done, spec in enumerate(asked):
        progress(done, len(asked), spec.name)
        with one_thread():
            made = factory(spec.request)
        if isinstance(made, Declined):
            declined.append((spec.name, made.reason))
            continue
        served.setdefault(_model(spec), []).append(spec.name)
        results += _held(made, spec, chosen, How(seed, isolate), row_access)
        if said.stated is not None or said.cannot:
            pools += _pools(made, spec)
    progress(len(asked), len(asked), "")
    if not served:
        reasons = "; ".join(sorted({reason for _, reason in declined}))
        raise BadInput(f"every model was declined, so no law ran: {reasons}")
    results += declaration_results(chosen, pools, said, seed)
    results = apply_expectations([aged(r, pinned) for r in results], known)
    return Report(
        target=target,
        laws_version=laws_version,
        subjects=tuple(Subject(model, tuple(names), _PLATFORM) for model, names in served.items()),
        results=tuple(results),
        declined=tuple(declined),
        row_access="" if row_access is None else name_of(type(row_access)),
    )


_PLATFORM = (CapabilityVerdict(Platform.__name__, "yes", ()),)


def _chosen(laws: Sequence[str] | None) -> list[Law]:
    """Of all laws, or of those named, the ones about platforms and about what a vendor says.

    :raises BadInput: where none of those that are named is.
    """
    named = list(LAWS.values()) if laws is None else laws_named(list(laws))
    chosen = [law for law in named if issubclass(law.bench, (DeploymentBench, ClaimsBench))]
    if not chosen:
        raise BadInput(f"{', '.join(laws or ())}: no law about platforms; those are 'builder'")
    return chosen


def _model(spec: Spec) -> str:
    request: ModelRequest = spec.request
    return request.model


def _held(
    made: Deployment, spec: Spec, laws: Sequence[Law], how: How, row_access: RowAccess | None
) -> list[LawResult]:
    """One deployment serves every law: building it costs more than all of them."""
    subject = Built(spec, made, lambda _request: made, row_access=row_access, called=_model(spec))
    return run_laws([subject], laws, how, lambda _done, _total, _name: None)


def _pools(made: Deployment, spec: Spec) -> list[Subject]:
    if made.built is None or made.built.pool is None:
        return []
    return [Subject(_model(spec), (spec.name,), tuple(verdicts(made.built.pool)))]
