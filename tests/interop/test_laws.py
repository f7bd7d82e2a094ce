"""The recorded verdicts are what the kit finds in sglang's real pools today."""

from __future__ import annotations

from tests.interop.verdicts import SAMPLE, Verdicts, grouped, recorded


def test_every_pool_is_recorded() -> None:
    found = recorded()
    assert set(SAMPLE) <= set(found)
    assert all(found.values())


def test_the_sample_finds_what_is_recorded(sample: Verdicts) -> None:
    assert set(SAMPLE) <= set(sample)
    for pool, laws in sample.items():
        seen = {spec for specs in laws.values() for spec in specs}
        known = {
            law: kept
            for law, specs in recorded()[pool].items()
            if (kept := {spec: told for spec, told in specs.items() if spec in seen})
        }
        assert laws == known, f"{pool}: when that is meant, `make interop-results`, review the diff"


def test_verdicts_are_grouped_by_what_is_told() -> None:
    verdicts = {"pool": {"law": {"a": "passed", "b": "failed: 1", "c": "passed"}}}
    assert grouped(verdicts) == {"pool": {"law": {"passed": "a c", "failed: 1": "b"}}}
