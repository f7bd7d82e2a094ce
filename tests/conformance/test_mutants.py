"""Every law is broken by the faults it is about, and the reference pools break none."""

from __future__ import annotations

import pytest

from kvproto.conformance import LAWS, Report, check_pool
from kvproto.conformance.command import BUILT_IN
from kvproto.conformance.factory import load_factory
from kvproto.conformance.mutants import MUTANTS, Mutant
from kvproto.protocols import Declined
from kvproto.reference import MHALeaf
from tests.conformance.plain import is_plain


def test_every_law_kills_a_mutant() -> None:
    assert {mutant.kills for mutant in MUTANTS} == set(LAWS)


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_law_names_its_mutant(mutant: Mutant) -> None:
    report = check_pool(mutant.factory, laws=[mutant.kills], **mutant.asked)
    assert report.failures, f"{mutant.kills} let {mutant.name} pass"
    assert {result.law for result in report.failures} == {mutant.kills}
    assert not report.ok


BIND_NO_POOL_OF_OURS = {
    "declaration.claims",
    "indexer.group-move",
    "oracle.no-doors",
    "oracle.peek-regions",
    "oracle.poke-peek",
    "oracle.poke-read",
    "write.dcp-mask",
}
"""What a vendor says, what no pool of ours offers, and eyes that ours do not need."""


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """Every built-in pool, held to every law; the run takes most of a minute."""
    return [check_pool(load_factory(target)) for target in BUILT_IN]


def test_built_in_pools_keep_every_law(reports: list[Report]) -> None:
    for report in reports:
        assert [f"{r.law} on {r.spec}: {r.detail}" for r in report.failures] == []
        assert all(result.status == "passed" for result in report.results)


def test_every_law_binds_some_built_in_pool(reports: list[Report]) -> None:
    bound = {result.law for report in reports for result in report.results}
    assert set(LAWS) - bound <= BIND_NO_POOL_OF_OURS


def test_a_pool_built_as_mutants_are_is_not_what_fails() -> None:
    def build(request: object) -> object:
        if is_plain(request):
            return MHALeaf(**request.keywords())
        return Declined("K and V rows only")

    assert check_pool(build).ok
