"""Of any module: the rewrite parses, answers as before, is done once, and touches nothing else."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.gates import Profile, load_profile
from kvproto.gates.rewrite import rewrite
from tests.gates.engine_pools import OBJECTS, importable
from tests.gates.small_profile import TOML

CLASSES = ("Pair", "Heads", "Latent", "Spec")
IMPORTS = st.sampled_from(
    [
        "from engine.pools import Heads, Latent, Pair, Spec",
        "from engine.pools import (\n    Heads,\n    Latent,  # latent\n    Pair,\n    Spec,\n)",
        "from engine.pools import Heads, Latent\nimport math\nfrom engine.pools import Pair, Spec",
        "import engine.pools\nfrom engine.pools import Heads, Latent, Pair, Spec",
        "if True:\n    from engine.pools import Heads, Latent, Pair, Spec",
        "from engine.pools import *",
        "try:\n    from engine.pools import Heads, Latent, Pair, Spec\nfinally:\n    x = 1",
        "try:\n    from engine.pools import Heads, Latent, Pair, Spec\n"
        "except ImportError:\n    Heads = Latent = Pair = Spec = ()",
    ]
)
NAMED = """\
from engine.pools import Mine
TABLE = {"a": Latent, "b": Pair}
GROWN = (Heads,)
GROWN += (Mine,)
LISTED = [Heads]
LISTED.append(Mine)
BOTH = (Pair, Latent)
MORE = BOTH + (Mine,)"""
# Of each some class is unknown, or only one is asked for.
PARTIAL = st.sampled_from(
    [
        "isinstance({}, (Pair, Mine))",
        "isinstance({}, (Pair, type(None)))",
        "isinstance({}, Pair | None)",
        "isinstance({}, (Heads, (Mine, int)))",
        "isinstance({}, Pair if x else Latent)",
        "isinstance({}, TABLE['b'])",
        "isinstance({}, TABLE.get('a'))",
        "isinstance({}, (Pair, *TABLE.values(), Mine))",
        "isinstance({}, GROWN)",
        "isinstance({}, MORE)",
        "isinstance({}, (*BOTH, Mine))",
        "isinstance({}, (Pair,) + MORE)",
        "type({}) in (Heads, Mine)",
        "type({}) not in LISTED",
        "type({}) in tuple(LISTED)",
    ]
)
# `{}` is another gate. The pool whose type was taken is another by then, or is not.
BODIES = st.sampled_from(
    [
        "return {}",
        "return {}",
        "kind = type(p)\n    return kind is Heads or {}",
        "kind = type(p)\n    p = 3\n    return kind is Heads or {}",
        "kind = type(box.pool)\n    box = Box(3)\n    return kind is Heads or {}",
        "kind = type(p)\n    return (lambda p: kind is Heads)(3) or {}",
        "kind = type(p)\n    kind = int\n    return kind is not Heads and {}",
        "kind = Pair\n    [kind := Heads for _ in 'a']\n    return isinstance(p, kind) or {}",
        "kind = Pair\n    def g():\n        nonlocal kind\n        kind = Heads\n    g()\n"
        "    return isinstance(p, kind) and {}",
        "match p:\n        case Pair() | Spec():\n            return 1\n"
        "        case Heads() as q if q:\n            return 2\n        case [Latent()]:\n"
        "            return 3\n        case Latent():\n            return 4\n    return {}",
    ]
)
OPERANDS = st.sampled_from(["p", "box.pool", "(p)", "[p][0]", "same(p)", " p "])
FILLERS = st.sampled_from(
    [
        "# a comment",
        "x = 'é'",
        "",
        "def g() -> Pair:\n    return 1",
        "y: 'Heads' = 1",
        "z = [\n  1,\n]",
    ]
)


@st.composite
def asked_of_a_pool(draw: st.DrawFn) -> str:
    pool = draw(OPERANDS)
    names = draw(st.lists(st.sampled_from(CLASSES), min_size=1, max_size=3))
    listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
    asked = draw(
        st.sampled_from(
            [
                f"isinstance({pool}, {listed})",
                f"isinstance(\n    {pool},\n    {listed}\n)",
                f"type({pool}) is {names[0]}",
                f"type({pool}) is not {names[0]}",
                f"type({pool}) in ({', '.join(names)},)",
                f"{names[0]} in type({pool}).__mro__",
                f"{names[0]} not in ({pool}).__class__.mro()",
                f"f'{{isinstance({pool}, {listed})}}' == 'True'",
                f"isinstance({pool}, {' | '.join(names)})",
            ]
        )
    )
    return draw(st.sampled_from(["{}", "not {}", "({})", "{} and True", "x == ({})"])).format(asked)


@st.composite
def asked_in_part(draw: st.DrawFn) -> str:
    return draw(PARTIAL).format(draw(OPERANDS))


@st.composite
def modules(draw: st.DrawFn) -> str:
    named = draw(st.booleans())
    asks = asked_of_a_pool() | asked_in_part() if named else asked_of_a_pool()
    lines = [draw(IMPORTS), "x = True", *([NAMED] if named else [])]
    for number, asked in enumerate(draw(st.lists(asks, min_size=1, max_size=4))):
        lines.append(draw(FILLERS))
        inside = draw(st.booleans())
        own = "    from engine.pools import Heads, Pair\n\n" if inside else ""
        body = draw(BODIES).format(indented(asked))
        lines.append(f"def f{number}(p, box, same):\n{own}    {body}")
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return ("\n".join(lines) + "\n").replace("\n", newline)


def indented(text: str) -> str:
    return text.replace("\n", "\n    ")


@pytest.fixture(scope="module")
def engine_profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    file = tmp_path_factory.mktemp("profile") / "engine.toml"
    file.write_text(TOML)
    return load_profile(str(file))


def answers(source: bytes) -> list[Any]:
    """What every function of the module says of every object."""
    namespace: dict[str, Any] = {"Box": Box}
    with importable():
        exec(compile(source, "module", "exec"), namespace)
        functions = [value for name, value in sorted(namespace.items()) if name[0] == "f"]
        return [f(o, Box(o), lambda p: p) or 0 for f in functions if callable(f) for o in OBJECTS]


class Box:
    def __init__(self, pool: object) -> None:
        self.pool = pool


@settings(max_examples=150, deadline=None)
@given(source=modules())
def test_a_module_answers_as_before(engine_profile: Profile, source: str) -> None:
    before = source.encode()
    got = rewrite(before, "engine/user.py", engine_profile, lambda _: False)
    ast.parse(got.after)
    assert answers(got.after) == answers(before)
    again = rewrite(got.after, "engine/user.py", engine_profile, lambda _: False)
    assert (again.after, again.done) == (got.after, ())
    assert len(again.left) == len(got.left)
    assert comments(got.after) >= comments(before) - {"# latent"}
    assert (b"\r\n" in got.after) == (b"\r\n" in before)
    assert got.after.count(b"\n") == got.after.count(b"\r\n") or b"\r\n" not in before


def comments(source: bytes) -> set[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.COMMENT}
