"""A law runs after those it needs, wherever they are registered, and falls with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.conformance import LAWS, Report, check_pool
from kvproto.conformance.needs import in_order_of_needs
from kvproto.protocols import Declined, RequestPoolRequest, StateRequestPoolRequest
from kvproto.reference.build_any import build_reference


def no_rows(request: Any) -> Any:
    """Tables that lend nothing: `request.rows` fails, and with it whatever takes a row."""
    if not isinstance(request, RequestPoolRequest | StateRequestPoolRequest):
        return Declined("request tables only")
    pool: Any = build_reference(request)
    pool.alloc = lambda _reqs: None
    return pool


def by_law(report: Report, spec: str) -> dict[str, tuple[str, str]]:
    return {r.law: (r.status, r.note) for r in report.results if r.spec == spec}


def test_every_law_is_ordered_after_those_it_needs_and_they_exist() -> None:
    place = {law.id: at for at, law in enumerate(in_order_of_needs(LAWS.values()))}
    assert set(place) == set(LAWS)
    for law in LAWS.values():
        for need in law.needs:
            assert place[need] < place[law.id], f"{law.id} needs {need}"


def test_laws_that_need_none_keep_their_order() -> None:
    free = [law for law in LAWS.values() if not law.needs]
    assert in_order_of_needs(free) == free


def test_laws_that_need_one_another_are_named() -> None:
    first, second, third = list(LAWS.values())[:3]
    circle = [
        replace(first, needs=(second.id,)),
        replace(second, needs=(third.id,)),
        replace(third, needs=(second.id,)),
    ]
    with pytest.raises(ValueError, match=f"{second.id} -> {third.id} -> {second.id}"):
        in_order_of_needs(circle)


def test_a_law_registered_before_the_one_it_needs_is_blocked_by_it() -> None:
    report = check_pool(no_rows, laws=["request"])
    for spec in {r.spec for r in report.results}:
        told = by_law(report, spec)
        assert told["request.rows"][0] == "failed"
        assert told["request.named-twice"] == ("blocked", "blocked by request.rows")


def test_what_needs_a_blocked_law_is_blocked_by_the_one_that_failed() -> None:
    report = check_pool(no_rows, laws=["request", "state-rows"])
    spec = next(r.spec for r in report.results if r.law == "state-rows.keeps")
    told = by_law(report, spec)
    through = [law for law in LAWS.values() if "state-rows.keeps" in law.needs]
    assert through
    for law in [LAWS["state-rows.keeps"], *through]:
        assert told[law.id] == ("blocked", "blocked by request.rows")
