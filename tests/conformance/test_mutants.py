"""Every law is broken by the fault it is about, and by it alone is it broken here."""

from __future__ import annotations

import pytest

from kvproto.conformance import LAWS, check_pool
from kvproto.reference import MHALeaf, build_reference_leaf

from .mutants import MUTANTS, factory_of


def test_every_law_has_its_mutant() -> None:
    assert set(MUTANTS) == set(LAWS)


def test_the_reference_leaf_keeps_every_law() -> None:
    report = check_pool(build_reference_leaf)
    assert [f"{r.law} on {r.spec}: {r.detail}" for r in report.failures] == []
    assert {r.law for r in report.results} == set(LAWS)
    assert all(result.status == "passed" for result in report.results)


def test_the_factory_of_mutants_is_not_what_fails() -> None:
    assert check_pool(factory_of(MHALeaf)).ok


@pytest.mark.parametrize("law", MUTANTS)
def test_the_law_names_its_mutant(law: str) -> None:
    report = check_pool(factory_of(MUTANTS[law]), laws=[law])
    assert report.failures, f"{law} let {MUTANTS[law].__name__} pass"
    assert {result.law for result in report.failures} == {law}
    assert not report.ok
