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
                f"isinstance({pool}, {' | '.join(names)})",
            ]
        )
    )
    return draw(st.sampled_from(["{}", "not {}", "({})", "{} and True", "x == ({})"])).format(asked)


@st.composite
def modules(draw: st.DrawFn) -> str:
    lines = [draw(IMPORTS), "x = True"]
    for number, asked in enumerate(draw(st.lists(asked_of_a_pool(), min_size=1, max_size=4))):
        lines.append(draw(FILLERS))
        inside = draw(st.booleans())
        own = "    from engine.pools import Heads, Pair\n\n" if inside else ""
        lines.append(f"def f{number}(p, box, same):\n{own}    return {indented(asked)}")
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
    namespace: dict[str, Any] = {}
    with importable():
        exec(compile(source, "module", "exec"), namespace)
        functions = [value for name, value in sorted(namespace.items()) if name[0] == "f"]
        return [bool(f(o, Box(o), lambda p: p)) for f in functions if callable(f) for o in OBJECTS]


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
