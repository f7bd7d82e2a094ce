"""Members that are tried are found on what is named like a pool, and nowhere else."""

from __future__ import annotations

import pytest

from kvproto.gates import Profile
from kvproto.gates.answers import words
from tests.gates.small_profile import scanned

TRIED = [
    ("hasattr(pool, 'full_kv_pool')", "hasattr", "pool", "full_kv_pool"),
    ("hasattr(self.runner.pool, 'unheard_of')", "hasattr", "self.runner.pool", "unheard_of"),
    ("getattr(get_pool(), 'full_kv_pool', None)", "getattr", "get_pool()", "full_kv_pool"),
    ("getattr(pool, name, None)", "getattr", "pool", "<name>"),
    ("getattr(pool, name)", "getattr", "pool", "<name>"),
    (
        "try:\n    pool.mem_usage\nexcept AttributeError: pass",
        "try-except",
        "pool",
        "mem_usage",
    ),
    (
        "try:\n    print(pool.full_kv_pool.x)\nexcept (TypeError, AttributeError): pass",
        "try-except",
        "pool",
        "full_kv_pool",
    ),
]


@pytest.mark.parametrize(("source", "kind", "operand", "attribute"), TRIED)
def test_a_member_is_tried(
    source: str, kind: str, operand: str, attribute: str, engine: Profile
) -> None:
    found = [(g.kind, g.operand, g.attribute) for g in scanned(source, engine)]
    assert found == [(kind, operand, attribute)]


def test_a_member_that_others_have_too_is_left_to_a_person(engine: Profile) -> None:
    same, other = scanned("hasattr(pool, 'mem_usage'), hasattr(pool, 'end_layer')", engine)
    assert same.verdict == "exact"
    assert other.verdict == "needs-person"
    assert words(other.answer) == ("a person: a member of KVLeaf, but host pools have it too")


NOT_TRIED = [
    "getattr(pool, 'full_kv_pool')",
    "hasattr(model, 'full_kv_pool')",
    "hasattr(self, 'full_kv_pool')",
    "try:\n    pool.mem_usage\nexcept KeyError: pass",
    "try:\n    pool.mem_usage = 1\nexcept AttributeError: pass",
    "try:\n    pass\nexcept AttributeError:\n    pool.mem_usage",
    "pool.mem_usage",
]


@pytest.mark.parametrize("source", NOT_TRIED)
def test_what_tries_no_member_of_a_pool(source: str, engine: Profile) -> None:
    assert scanned(source, engine) == []


def test_a_member_without_an_answer_needs_a_person(engine: Profile) -> None:
    (gate,) = scanned("hasattr(pool, 'unheard_of')", engine)
    assert gate.verdict == "needs-person"


def test_what_is_named_like_a_pool_and_is_none(engine: Profile) -> None:
    source = "hasattr(self.allocator, 'fd'); hasattr(allocator, 'fd')"
    here = [g.operand for g in scanned(source, engine, file="engine/arena.py")]
    elsewhere = [g.operand for g in scanned(source, engine)]
    assert (here, elsewhere) == (["allocator"], ["self.allocator", "allocator"])
