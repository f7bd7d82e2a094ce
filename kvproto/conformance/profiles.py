"""The verdict per consumer: may attention, transfer, the host tier, ... use this pool?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .report import LawResult, Report, Subject

__all__ = ["PROFILES", "Profile", "ProfileVerdict", "profile_verdicts"]

Answer = Literal["yes", "no", "expected", "not asked"]


@dataclass(frozen=True, slots=True)
class Profile:
    """A consumer: the capabilities it cannot do without, and the families of laws it relies on.

    `subject_has` says to which subjects the question applies at all.
    """

    name: str
    subject_has: str
    needs: tuple[str, ...]
    families: tuple[str, ...]


PROFILES = (
    Profile(
        "attention",
        "KVPool",
        ("KVPool",),
        ("leaf", "mha", "mla", "fp8", "scales", "workspace", "write", "noop", "swa"),
    ),
    Profile("graph capture", "KVPool", ("KVPool",), ("sync-free",)),
    Profile("PD transfer", "KVPool", ("Transferable",), ("transfer", "state-transfer")),
    Profile("retraction", "KVPool", ("HostCopyable",), ("host-copy",)),
    Profile(
        "host tier",
        "KVPool",
        ("DeclaresRegions", "SizeReporting"),
        ("size", "transfer", "host-tier"),
    ),
    Profile("memory saver", "KVPool", ("Resumable",), ("memory-saver",)),
    Profile("speculative", "KVPool", ("Movable",), ("move", "commit")),
    Profile(
        "SWA composite", "SWAComposite", ("SWAComposite",), ("swa", "request-ring", "composite")
    ),
    Profile("hybrid composite", "HybridComposite", ("HybridComposite",), ("hybrid", "composite")),
    Profile("sparse attention", "IndexerCapable", ("IndexerCapable",), ("indexer", "kpool")),
    Profile("page envelopes", "PageEnvelope", ("PageEnvelope",), ("envelope",)),
    Profile("index rows", "SparseIndexed", ("SparseIndexed",), ("sparse",)),
    Profile(
        "scheduling",
        "SlotAllocator",
        ("SlotAllocator",),
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
    Profile("batching", "RequestPool", ("RequestPool",), ("request", "state-rows")),
    Profile("state slots", "StateSlotAllocator", ("StateSlotAllocator",), ("state-slots",)),
    Profile("recurrent state", "StatePool", ("StatePool",), ("state",)),
)
"""In the order reports show them."""


@dataclass(frozen=True, slots=True)
class ProfileVerdict:
    """The answer for one consumer, and what it lacks where that is no.

    `expected`: only failures that the vendor announced stand against it. `not asked`: its laws
    were not part of the run.
    """

    profile: str
    answer: Answer
    lacks: str = ""


def profile_verdicts(report: Report, subject: Subject) -> list[ProfileVerdict]:
    """One verdict per consumer that such a subject has."""
    mine = [r for r in report.results if r.subject == subject.name]
    return [_verdict(p, subject, mine) for p in PROFILES if subject.has(p.subject_has)]


def _verdict(profile: Profile, subject: Subject, results: Sequence[LawResult]) -> ProfileVerdict:
    missing = [name for name in profile.needs if not subject.has(name)]
    if missing:
        return ProfileVerdict(profile.name, "no", f"needs {', '.join(missing)}")
    asked = [r for r in results if r.rule.family in profile.families]
    broken = _laws(asked, "failed", "unexpected")
    if broken:
        return ProfileVerdict(profile.name, "no", f"breaks {', '.join(broken)}")
    if blocked := _laws(asked, "blocked"):
        return ProfileVerdict(profile.name, "no", f"could not run {', '.join(blocked)}")
    if known := _laws(asked, "expected"):
        return ProfileVerdict(profile.name, "expected", f"breaks {', '.join(known)}, as announced")
    return ProfileVerdict(profile.name, "yes" if asked else "not asked")


def _laws(results: Sequence[LawResult], *statuses: str) -> list[str]:
    return list(dict.fromkeys(r.law for r in results if r.status in statuses))
