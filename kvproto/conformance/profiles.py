"""The verdict per consumer: may attention, transfer, the host tier, ... use this pool?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .law import Law
from .report import LawResult, Report, Subject

__all__ = ["PROFILES", "Profile", "ProfileVerdict", "profile_verdicts"]

Answer = Literal["yes", "no", "expected", "not asked"]


@dataclass(frozen=True, slots=True)
class Profile:
    """A consumer: the capabilities it cannot do without, and the families of laws it relies on.

    The question applies to subjects that have any of `subject_has`. The laws of `beside` count
    against the consumer as those of `families` do, but answer for it only together with some of
    these.
    """

    name: str
    subject_has: tuple[str, ...]
    needs: tuple[str, ...]
    families: tuple[str, ...]
    beside: tuple[str, ...] = ()

    def uses(self, subject: Subject) -> bool:
        """Does the question apply to the subject?"""
        return any(map(subject.has, self.subject_has))

    def counts(self, law: Law) -> bool:
        """Does the consumer rely on the law?"""
        return law.family in self.families or law.family in self.beside


_ROWS = ("KVPool", "KeyOnly")
_EYES = ("oracle",)
"""What holds to account how rows were read: for all whose laws compare stored bytes."""

PROFILES = (
    Profile(
        "attention",
        (*_ROWS, "MHARows"),  # a pool that keeps nothing has rows to show, and no writes
        (),
        ("leaf", "mha", "mla", "fp8", "scales", "workspace", "write", "noop", "swa"),
        _EYES,
    ),
    Profile("graph capture", _ROWS, (), ("sync-free",)),
    Profile("PD transfer", _ROWS, ("Transferable",), ("transfer", "state-transfer"), _EYES),
    Profile("retraction", _ROWS, ("HostCopyable",), ("host-copy",), _EYES),
    Profile(
        "host tier",
        _ROWS,
        ("DeclaresRegions", "SizeReporting"),
        ("size", "transfer", "host-tier"),
        _EYES,
    ),
    Profile("memory saver", (*_ROWS, "StatePool"), ("Resumable",), ("memory-saver",), _EYES),
    Profile(
        "memory saver",
        ("SlotAllocator", "StateSlotAllocator", "RequestPool"),
        (),
        ("memory-saver",),
    ),
    Profile("speculative", _ROWS, ("Movable",), ("move", "commit"), _EYES),
    Profile("SWA composite", ("SWAComposite",), (), ("swa", "composite"), _EYES),
    Profile("ring composite", ("RequestRingSWA",), (), ("request-ring",), ("composite", *_EYES)),
    Profile("hybrid composite", ("HybridComposite",), (), ("hybrid", "composite"), _EYES),
    Profile("sparse attention", ("IndexerCapable",), (), ("indexer", "kpool"), _EYES),
    Profile("index key rows", ("IndexKeyRows",), (), ("index-rows",), _EYES),
    Profile("page envelopes", ("PageEnvelope",), (), ("envelope",), _EYES),
    Profile("index rows", ("SparseIndexed",), (), ("sparse",), _EYES),
    Profile(
        "scheduling",
        ("SlotAllocator",),
        (),
        (
            "alloc",
            "swa-alloc",
            "pure-swa",
            "ring-alloc",
            "hisparse-alloc",
            "sharded-alloc",
            "virtual-ids",
        ),
    ),
    Profile("batching", ("RequestPool",), (), ("request", "state-rows")),
    Profile("state slots", ("StateSlotAllocator",), (), ("state-slots",)),
    Profile("recurrent state", ("StatePool",), (), ("state",)),
    Profile("configurator", ("Platform",), (), ("builder",)),
)
"""In the order reports show them."""


@dataclass(frozen=True, slots=True)
class ProfileVerdict:
    """The answer for one consumer; `lacks` says what it lacks, or what was never asked for it.

    `expected`: only failures that the vendor announced stand against it. `not asked`: its laws
    were not part of the run, or had nothing to ask.
    """

    profile: str
    answer: Answer
    lacks: str = ""


def profile_verdicts(report: Report, subject: Subject) -> list[ProfileVerdict]:
    """One verdict per consumer that such a subject has."""
    mine = [r for r in report.results if r.subject == subject.name]
    return [_verdict(p, subject, mine) for p in PROFILES if p.uses(subject)]


def _verdict(profile: Profile, subject: Subject, results: Sequence[LawResult]) -> ProfileVerdict:
    missing = [name for name in profile.needs if not subject.has(name)]
    if missing:
        return ProfileVerdict(profile.name, "no", f"needs {', '.join(missing)}")
    mine = [r for r in results if profile.counts(r.rule)]
    asked = [r for r in mine if r.status != "not asked"]
    broken = _laws(asked, "failed", "unexpected")
    if broken:
        return ProfileVerdict(profile.name, "no", f"breaks {', '.join(broken)}")
    if blocked := _laws(asked, "blocked"):
        return ProfileVerdict(profile.name, "no", f"could not run {', '.join(blocked)}")
    if known := _laws(asked, "expected"):
        return ProfileVerdict(profile.name, "expected", f"breaks {', '.join(known)}, as announced")
    own = any(r.rule.family in profile.families for r in asked)
    never = set(_laws(mine, "not asked")) - {r.law for r in asked}
    told = f"never asked: {', '.join(sorted(never))}" if never else ""
    return ProfileVerdict(profile.name, "yes" if own else "not asked", told)


def _laws(results: Sequence[LawResult], *statuses: str) -> list[str]:
    return list(dict.fromkeys(r.law for r in results if r.status in statuses))
