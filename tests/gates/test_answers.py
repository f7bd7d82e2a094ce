"""What answers a gate: by class, together, of the very class, and in one place."""

from __future__ import annotations

import pytest

from kvproto.gates import Profile
from kvproto.gates.answers import words
from tests.gates.small_profile import scanned

ANSWERED = [
    ("isinstance(pool, Pair)", "exact", "SWAComposite"),
    ("isinstance(pool, (Pair, Heads))", "exact", "SWAComposite, or MHARows"),
    ("isinstance(pool, Latent)", "needs-trait", "kind = mla or dsa"),
    ("isinstance(pool, (Pair, Latent))", "needs-trait", "SWAComposite, or kind = mla or dsa"),
    ("isinstance(pool, (Pair, Spec))", "needs-person", "a person: plain data"),
    ("type(pool) is Heads", "needs-trait", "MHARows and layout = nhd"),
    (
        "type(pool) is Pair",
        "needs-person",
        "a person: the very class Pair, without its subclasses: which facts set it apart",
    ),
    (
        "issubclass(cls, Heads)",
        "needs-person",
        "a person: a class is asked before there is a pool: what a vendor's class must offer",
    ),
    ("hasattr(pool, 'full_kv_pool')", "exact", "a member of SWAComposite"),
]


@pytest.mark.parametrize(("source", "verdict", "answer"), ANSWERED)
def test_answers(source: str, verdict: str, answer: str, engine: Profile) -> None:
    (gate,) = scanned(source, engine)
    assert (gate.verdict, words(gate.answer)) == (verdict, answer)


def test_the_question_of_a_capability_is_its_own(engine: Profile) -> None:
    (gate,) = scanned("isinstance(pool, Pair)", engine)
    assert (
        gate.asks == "is each layer of the pool in one of two leaves, a full one or a windowed one?"
    )


def test_one_place_may_ask_for_something_else(engine: Profile) -> None:
    source = (
        "class Consumer:\n"
        "    def ask(self): isinstance(pool, Pair); isinstance(pool, Heads)\n"
        "    def tell(self): isinstance(pool, Pair)\n"
    )
    gates = scanned(source, engine, file="special.py")
    assert [words(g.answer) for g in gates] == ["SWACapable", "MHARows", "SWAComposite"]
    assert [g.why for g in gates] == ["only translates", "", ""]
