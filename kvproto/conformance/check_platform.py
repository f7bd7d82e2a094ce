"""The kit as one function of a platform: its parts, then whole models planned and built on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvproto._bad_input import BadInput
from kvproto.protocols import Declined, Platform

from .capabilities import CapabilityVerdict, verdicts
from .check import examined, laws_chosen
from .deployment import Deployer, Deployment
from .factory import Factory
from .found import LAWS_VERSION, Found, Terms, report_of
from .isolated import Isolation
from .law import Law
from .on_device import device_named, spec_on
from .one_thread import one_thread
from .platform_parts import PART_SPECS, is_of_platforms, parts_of, platform_laws
from .report import LawResult, Report, Subject
from .row_access import RowAccess
from .runner import Built, How, Progress, run_laws
from .specs import SPECS, Spec
from .specs.models import MODEL_SPECS, ModelRequest, deployment_named
from .specs.nearest import nearest

__all__ = ["check_deployments", "check_platform", "split_specs"]


def _unwatched(_done: int, _total: int, _name: str) -> None:
    """Nobody waits for it."""


def check_platform(
    platform: Platform,
    *,
    target: str = "",
    place: str = "",
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
    progress: Progress = _unwatched,
) -> Report:
    """Hold a platform to the kit: first its parts, then whole models.

    Its leaves and allocators, and the core's composites over its leaves, are held to every law
    that binds them, as `check_pool` does. Then every model of the matrix is planned and built,
    with the platform's parts and the core's, and held to the laws about platforms. What it
    declines, and what cannot be planned, is reported with its reason.

    The arguments are those of `check_pool`; `specs` names geometries and deployments, of which a
    run takes those that are named. Parts are built on `device`, models in host memory. Claims are
    about all that is built. `place` says in a line why the platform is not on its device.

    :raises BadInput: as `check_pool` does.
    """
    terms = Terms.of(claims, cannot, expected, laws_version)
    chosen = _of_platforms(laws, capabilities)
    where = device_named(device)
    parts, models = split_specs(specs)
    parts = [spec_on(spec, where) for spec in parts]
    how = How(seed, isolate)
    about_parts = [law for law in chosen if not is_of_platforms(law)]
    about_models = [law for law in chosen if is_of_platforms(law)]
    parts = parts if about_parts else []
    models = models if about_models or not terms.claims.silent else []
    total = len(parts) + len(models)

    def first(done: int, of: int, name: str) -> None:
        progress(len(parts) - of + done, total, name)

    def then(done: int, _of: int, name: str) -> None:
        progress(len(parts) + done, total, name)

    found = _parts(platform, parts, about_parts, how, row_access, first)
    found += _deployed(Deployer(platform), models, about_models, how, terms, row_access, then)
    return report_of(
        _something(found),
        chosen,
        terms,
        target=target or f"--platform {platform.name}",
        place=place,
        device=str(where),
        seed=seed,
        row_access=row_access,
    )


def check_deployments(
    factory: Factory,
    *,
    target: str = "",
    laws: Sequence[str] | None = None,
    specs: Sequence[str] | None = None,
    seed: int = 0,
    isolate: Isolation = "hazardous",
) -> Report:
    """Whole models alone, of a factory that answers a `ModelRequest` with a `Deployment`.

    :raises BadInput: for a name that does not exist, and when every model was declined.
    """
    chosen = [law for law in laws_chosen(laws, None) if is_of_platforms(law)]
    asked = list(MODEL_SPECS) if specs is None else [deployment_named(name) for name in specs]
    terms = Terms.of(None, None, None, LAWS_VERSION)
    found = _deployed(factory, asked, chosen, How(seed, isolate), terms, None, _unwatched)
    return report_of(_something(found), chosen, terms, target=target, seed=seed)


def split_specs(names: Sequence[str] | None) -> tuple[list[Spec], list[Spec]]:
    """Geometries of parts, and deployments; all of both for None.

    :raises BadInput: for a name that is neither.
    """
    if names is None:
        return list(PART_SPECS), list(MODEL_SPECS)
    parts = {spec.name: spec for spec in PART_SPECS}
    others = {spec.name for spec in SPECS} - set(parts)
    for name in names:
        if name in others:
            raise BadInput(f"geometry '{name}' is of what the core builds on every platform")
    geometries = [parts[name] for name in names if name in parts]
    return geometries, [_deployment(name) for name in names if name not in parts]


def _deployment(name: str) -> Spec:
    try:
        return deployment_named(name)
    except BadInput:
        like = nearest(name, (spec.name for spec in (*PART_SPECS, *MODEL_SPECS)))
        raise BadInput(f"no geometry or deployment '{name}': {like}") from None


def _of_platforms(laws: Sequence[str] | None, capabilities: Sequence[str] | None) -> list[Law]:
    """:raises BadInput: where none of those that are named is about what a platform builds."""
    of_platforms = {"declaration.claims", *(law.id for law in platform_laws())}
    chosen = [law for law in laws_chosen(laws, capabilities) if law.id in of_platforms]
    if not chosen:
        names = ", ".join((*(laws or ()), *(capabilities or ())))
        raise BadInput(f"{names}: no law about what a platform builds; `kvproto laws` lists all")
    return chosen


def _something(found: Found) -> Found:
    """:raises BadInput: where it is nothing."""
    if not found.subjects:
        raise BadInput(f"everything was declined, so no law ran: {found.reasons}")
    return found


def _parts(
    platform: Platform,
    specs: Sequence[Spec],
    laws: Sequence[Law],
    how: How,
    row_access: RowAccess | None,
    progress: Progress,
) -> Found:
    """Composites that the kit built over the platform's leaves are declined by nobody."""
    found = examined(parts_of(platform), specs, laws, how, row_access, progress)
    served = {name for subject in found.subjects for name in subject.specs}
    found.declined = [(name, why) for name, why in found.declined if name not in served]
    return found


def _deployed(
    factory: Factory,
    specs: Sequence[Spec],
    laws: Sequence[Law],
    how: How,
    terms: Terms,
    row_access: RowAccess | None,
    progress: Progress,
) -> Found:
    found = Found()
    served: dict[str, list[str]] = {}
    for done, spec in enumerate(specs):
        progress(done, len(specs), spec.name)
        with one_thread():
            made = factory(spec.request)
        if isinstance(made, Declined):
            found.declined.append((spec.name, made.reason))
            continue
        served.setdefault(_model(spec), []).append(spec.name)
        found.results += _held(made, spec, laws, how, row_access)
        if not terms.claims.silent:
            found.claimed += _pools(made, spec)
    progress(len(specs), len(specs), "")
    found.subjects = [Subject(model, tuple(names), _PLATFORM) for model, names in served.items()]
    return found


_PLATFORM = (CapabilityVerdict(Platform.__name__, "yes", ()),)


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
