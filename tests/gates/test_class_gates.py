"""Every way of asking for a class is found, and what only looks like one is not."""

from __future__ import annotations

import re
import sys

import pytest

from kvproto.gates import Profile, gates_of
from kvproto.gates.answers import Person
from tests.gates.small_profile import scanned

ASKED = [
    ("isinstance(pool, Pair)", "isinstance", "pool", "Pair"),
    ("isinstance(self.a.pool, (Pair, Heads))", "isinstance", "self.a.pool", "Pair|Heads"),
    ("isinstance(pool, Pair | Latent)", "isinstance", "pool", "Pair|Latent"),
    ("isinstance(pools[0], (Pair, (Heads, int)))", "isinstance", "pools[0]", "Pair|Heads"),
    ("not isinstance(x, Pair)", "isinstance", "x", "Pair"),
    ("any(isinstance(p, Pair) for p in pools)", "isinstance", "p", "Pair"),
    ("issubclass(cls, Heads)", "issubclass", "cls", "Heads"),
    ("type(pool) is Pair", "type-is", "pool", "Pair"),
    ("type(pool) is not Pair", "type-is", "pool", "Pair"),
    ("type(pool) == Pair", "type-is", "pool", "Pair"),
    ("Pair == type(pool)", "type-is", "pool", "Pair"),
    ("pool.__class__ is Pair", "type-is", "pool", "Pair"),
    ("type(pool) in (Pair, Heads)", "type-is", "pool", "Pair|Heads"),
    ("type(pool) not in {Pair}", "type-is", "pool", "Pair"),
    ("chosen is Heads", "class-is", "chosen", "Heads"),
    ("chosen in [Heads, Pair]", "class-is", "chosen", "Heads|Pair"),
    ("type(pool).__name__ == 'Pair'", "class-name", "pool", "Pair"),
    ("'Pair' == pool.__class__.__name__", "class-name", "pool", "Pair"),
    ("type(pool).__name__ in ('Pair', 'Other')", "class-name", "pool", "Pair"),
    ("{Pair: 1, Heads: 2}[type(pool)]", "dispatch", "pool", "Pair|Heads"),
    ("{Pair: 1}.get(type(pool), 0)", "dispatch", "pool", "Pair"),
    ("type(pool) in {Pair: 1}", "dispatch", "pool", "Pair"),
    ("type(pool).get is Pair.get", "method-is", "pool", "Pair"),
    ("'Pair' in type(pool).__name__", "class-name", "pool", "Pair"),
    ("Pair in type(pool).__mro__", "isinstance", "pool", "Pair"),
    ("Pair not in pool.__class__.mro()", "isinstance", "pool", "Pair"),
]


@pytest.mark.parametrize(("source", "kind", "operand", "classes"), ASKED)
def test_a_class_is_asked_for(
    source: str, kind: str, operand: str, classes: str, engine: Profile
) -> None:
    found = [(g.kind, g.operand, "|".join(g.classes)) for g in scanned(source, engine)]
    assert found == [(kind, operand, classes)]


BOUND = [
    ("BOTH = (Pair, Heads)\nisinstance(p, BOTH)", "Pair|Heads"),
    ("def f():\n    return isinstance(p, BOTH)\nBOTH = (Pair, Heads)", "Pair|Heads"),
    ("BOTH = (Pair,)\nALL = BOTH + (Heads,)\nisinstance(p, ALL)", "Pair|Heads"),
    ("BOTH = (Pair,)\nisinstance(p, (*BOTH, Heads))", "Pair|Heads"),
    ("from typing import Union\nisinstance(p, Union[Pair, Heads])", "Pair|Heads"),
    ("OF = {'a': Pair, 'b': Heads}\nbase = OF[kind]\nisinstance(p, base)", "Pair|Heads"),
    ("OF: dict[str, type] = {'a': Pair}\nissubclass(p, OF.get(kind))", "Pair"),
    ("kind = Pair if x else Heads\nisinstance(p, kind)", "Pair|Heads"),
    ("import engine.pools as ep\nisinstance(p, ep.Heads)", "Heads"),
    ("import engine.pools\nisinstance(p, engine.pools.Heads)", "Heads"),
    ("from engine import pools\nisinstance(p, pools.Heads)", "Heads"),
    ("from engine.pools import Heads as H\nisinstance(p, H)", "Heads"),
    ("from .pools import Heads as H\nisinstance(p, H)", "Heads"),
    ("def f():\n    from engine.pools import Heads as H\n    return isinstance(p, H)", "Heads"),
    ("kind = type(p)\nif kind is Heads: pass", "Heads"),
    ("from engine.pools import *\nisinstance(p, Heads)", "Heads"),
    ("match p:\n    case Pair(full=x): pass\n    case [Heads()]: pass", "Pair,Heads"),
]


@pytest.mark.parametrize(("source", "classes"), BOUND)
def test_names_are_followed(source: str, classes: str, engine: Profile) -> None:
    found = [",".join("|".join(g.classes) for g in scanned(source, engine))]
    assert found == [classes]


GLOBAL = "class C:\n    def f(self):\n        global ALL\n        ALL = (Heads,)\n"
NONLOCAL = "    def g():\n        def h():\n            nonlocal ALL\n            ALL = (Heads,)\n"
UNSURE = [
    ("isinstance(p, (Pair, Mine))", "it also names Mine"),
    ("isinstance(p, (Pair, type(None)))", r"it also names type\(None\)"),
    ("isinstance(p, Pair | None)", "it also names None"),
    ("isinstance(p, (Pair,) + MORE)\nMORE = (int,)", "it also names int"),
    ("from other import Mine\nisinstance(p, (Pair, Mine))", "it also names Mine"),
    ("from typing import Optional\nisinstance(p, Optional[Pair])", "chosen at run time"),
    ("isinstance(p, Pair if x else Heads)", "chosen at run time"),
    ("isinstance(p, Pair or Heads)", "chosen at run time"),
    ("OF = {'a': Pair}\nisinstance(p, OF['a'])", "chosen at run time"),
    ("OF = {'a': Pair}\nisinstance(p, OF.get('a'))", "chosen at run time"),
    ("OF = {'a': Pair}\nisinstance(p, tuple(OF.values()))", "chosen at run time"),
    ("ALL = (Pair,)\nALL += (Heads,)\nisinstance(p, ALL)", "ALL has several meanings"),
    ("ALL = [Heads]\ntype(p) in ALL", "ALL may be added to"),
    ("type(p) in (Heads, Mine)", "it also names Mine"),
    ("if x:\n    Heads = int\nHeads in type(p).__mro__", "Heads has several meanings"),
    ("if x:\n    Heads = int\nmatch p:\n    case Heads(): pass", "Heads has several meanings"),
    ("import engine.pools as ep\nep = x\nisinstance(p, ep.Pair)", "ep has several meanings"),
    (f"{GLOBAL}ALL = (Pair,)\nisinstance(p, ALL)", "ALL has several meanings"),
    (f"def f():\n    ALL = (Pair,)\n{NONLOCAL}    isinstance(p, ALL)", "ALL has several meanings"),
    ("ALL = Pair\n[ALL := int for x in y]\nisinstance(p, ALL)", "ALL has several meanings"),
    ("ALL = Pair\nmatch y:\n    case [*ALL]: pass\nisinstance(p, ALL)", "several meanings"),
    ("ALL = Pair\nmatch y:\n    case {**ALL}: pass\nisinstance(p, ALL)", "several meanings"),
    ("if x:\n    Heads = int\ntype(p) is Heads", "Heads has several meanings"),
    ("kind = type(p)\nif kind is Heads: pass", "of another object than p is by then"),
    ("kind = type(p)\nPair in kind.__mro__", "of another object than p is by then"),
    ("def f(p):\n    kind = type(p)\n    p = 1\n    kind is Heads", "than p is by then"),
    ("def f(p):\n    kind = type(p)\n    def g(p): return kind is Heads", "than p is by then"),
    ("def f(s):\n    kind = type(s.p)\n    s.p = 1\n    kind is Heads", "than s.p is by then"),
]


@pytest.mark.parametrize(("source", "why"), UNSURE)
def test_what_is_not_all_of_a_gate_is_a_persons(source: str, why: str, engine: Profile) -> None:
    (gate,) = scanned(source, engine)
    assert gate.verdict == "needs-person"
    assert isinstance(gate.answer, Person)
    assert re.search(why, gate.answer.why)


SURE = [
    "isinstance(p, (Pair, (Heads, Pair)))",
    "isinstance(p, Pair | Heads)",
    "BOTH = (Pair,)\nALL = BOTH + (Heads,)\nisinstance(p, (*ALL, Pair))",
    "from typing import Union\nisinstance(p, Union[Pair, Heads])",
    "type(p) in frozenset({Heads})",
    "from engine.pools import Pair\nisinstance(p, Pair)",
    "def f(p):\n    kind = type(p)\n    return kind is Heads",
    "def f(p):\n    kind = type(p)\n    return Heads in kind.mro()",
]


@pytest.mark.parametrize("source", SURE)
def test_what_is_all_of_a_gate_has_an_answer(source: str, engine: Profile) -> None:
    (gate,) = scanned(source, engine)
    assert gate.verdict != "needs-person"


NOT_ASKED = [
    "pool = Pair(1)",
    "def f(pool: Pair) -> Heads: ...",
    "isinstance(pool, int)",
    "def type(a): ...\ntype(p)['x'] is None",
    "isinstance(pool, Pair.State)",
    "chosen is None",
    "Pair in kind.__mro__",
    "def type(a): ...\nPair in type(p).__mro__",
    "Pair is not None and None == Heads",
    "chosen = Pair if a else Heads\nchosen is None",
    "def f(Pair):\n    return isinstance(p, Pair)",
    "def isinstance(a, b): ...\nisinstance(p, Pair)",
    "{Pair: 1}['a']",
    "x.get(type(pool))",
    "# isinstance(pool, Pair)",
    "'isinstance(pool, Pair)'",
    "type(pool).__name__ == 'Other'",
]


@pytest.mark.parametrize("source", NOT_ASKED)
def test_what_asks_for_no_pool_class(source: str, engine: Profile) -> None:
    assert scanned(source, engine) == []


def test_a_class_of_the_same_name_from_elsewhere_is_none(engine: Profile) -> None:
    assert gates_of("from other import Pair\nisinstance(p, Pair)", "engine/a.py", engine) == []


@pytest.mark.parametrize(
    ("other", "answered"), [("from .more import *", True), ("from other import *", False)]
)
def test_a_class_may_come_by_way_of_a_star(other: str, answered: bool, engine: Profile) -> None:
    source = f"from engine.pools import *\n{other}\nisinstance(p, Pair)"
    (gate,) = gates_of(source, "engine/a.py", engine)
    assert (gate.classes, gate.verdict != "needs-person") == (("Pair",), answered)


def test_a_star_from_elsewhere_alone_brings_none(engine: Profile) -> None:
    assert gates_of("from other import *\nisinstance(p, Pair)", "engine/a.py", engine) == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are new in Python 3.12")
@pytest.mark.parametrize(
    "source",
    [
        "def f[Pair](p): isinstance(p, Pair)",
        "class C[**Pair]:\n    def f(self): isinstance(p, Pair)",
    ],
)
def test_a_type_parameter_is_no_class(source: str, engine: Profile) -> None:
    assert scanned(source, engine) == []


def test_a_class_that_the_module_defines_is_one(engine: Profile) -> None:
    source = "class Pair: ...\nisinstance(p, Pair)"
    assert [g.classes for g in gates_of(source, "engine/pools.py", engine)] == [("Pair",)]


def test_where_it_stands(engine: Profile) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "class Consumer:\n"
        "    def ask(self, p):\n"
        "        if TYPE_CHECKING:\n"
        "            assert isinstance(p, Heads), 'rows'\n"
        "        else:\n"
        "            isinstance(p, Pair)\n"
    )
    first, second = scanned(source, engine)
    assert (first.scope, first.line, first.column) == ("Consumer.ask", 6, 20)
    assert (first.asserted, first.typing_only) == (True, True)
    assert (second.asserted, second.typing_only) == (False, False)
