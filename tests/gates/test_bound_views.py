"""A class that keeps its pool asks once, where the profile says that nobody swaps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvproto._bad_input import BadInput
from kvproto.gates.rewrite import rewrite
from kvproto.gates.rewritten import Rewritten
from tests.gates.small_profile import TOML, profile_of

BIND = """
[[bind]]
file = "engine/backend.py"
scope = "Backend"
operand = "self.pool"
capability = "SWAComposite"
as = "pair"
"""
BEFORE = """\
from engine.pools import Heads, Pair


class Backend:
    def __init__(self, runner):
        self.pool = runner.pool
        self.windowed = isinstance(self.pool, Pair)

    def forward(self, layer):
        pool = self.pool
        if isinstance(pool, Pair) and pool.layers_mapping[layer]:
            return not isinstance(self.pool, Pair)
        return isinstance(self.pool, Heads)

    def other(self, pool):
        return isinstance(pool, Pair)


class Another:
    def forward(self):
        return isinstance(self.pool, Pair)
"""
AFTER = """\
from kvproto.protocols import MHARows, SWAComposite


class Backend:
    def __init__(self, runner):
        self.pool = runner.pool
        self.pair = (
            self.pool
            if isinstance(self.pool, SWAComposite)
            else None
        )
        self.windowed = isinstance(self.pool, SWAComposite)

    def forward(self, layer):
        pool = self.pool
        if self.pair is not None and pool.layers_mapping[layer]:
            return not (self.pair is not None)
        return isinstance(self.pool, MHARows)

    def other(self, pool):
        return isinstance(pool, SWAComposite)


class Another:
    def forward(self):
        return isinstance(self.pool, SWAComposite)
"""


def rewritten(source: str, folder: Path) -> str:
    return rewrite_of(source, folder).after.decode()


def rewrite_of(source: str, folder: Path) -> Rewritten:
    profile = profile_of(folder, TOML + BIND)
    return rewrite(source.encode(), "backend.py", profile, lambda _: False)


def test_methods_test_what_was_bound(tmp_path: Path) -> None:
    assert rewritten(BEFORE, tmp_path) == AFTER
    assert rewritten(AFTER, tmp_path) == AFTER


REBOUND = [
    "pool = layer.pool",
    "[pool := each for each in layer]",
    "for pool in layer: pass",
    "with layer as pool: pass",
    "import pool",
    "match layer:\n            case [*pool]: pass",
    "match layer:\n            case {'a': 1, **pool}: pass",
    "def swap():\n            nonlocal pool\n            pool = layer",
]


@pytest.mark.parametrize("again", REBOUND)
def test_a_name_that_is_bound_to_more_than_the_pool_is_left(again: str, tmp_path: Path) -> None:
    source = BEFORE.replace("pool = self.pool\n", f"pool = self.pool\n        {again}\n")
    got = rewrite_of(source, tmp_path)
    expected = AFTER.replace("pool = self.pool\n", f"pool = self.pool\n        {again}\n")
    expected = expected.replace("if self.pair is not None and", "if isinstance(pool, Pair) and")
    imported = "from engine.pools import Pair\nfrom kvproto"
    assert got.after.decode() == expected.replace("from kvproto", imported)
    why = "pool is self.pool, which is bound once, or what else it is bound to"
    assert [left.why for left in got.left] == [why]


def test_where_self_is_another_methods_ask_as_anywhere(tmp_path: Path) -> None:
    source = BEFORE.replace("pool = self.pool\n", "self = layer\n        pool = self.pool\n")
    assert "isinstance(pool, SWAComposite)" in rewritten(source, tmp_path)


@pytest.mark.parametrize("head", ["self.pool: Pool = runner.pool", "self.pool, self.n = taken"])
def test_a_pool_is_taken_in_other_ways(head: str, tmp_path: Path) -> None:
    before, after = (text.replace("self.pool = runner.pool", head) for text in (BEFORE, AFTER))
    assert rewritten(before, tmp_path) == after


@pytest.mark.parametrize(
    "change",
    [
        ("pool = self.pool\n", "self.pool = pool = layer\n"),  # taken again
        ("pool = self.pool\n", "pool, self.pool = self.pool, layer\n"),
        ("pool = self.pool\n", "self.pool: int = layer; pool = self.pool\n"),
        ("pool = self.pool\n", "for self.pool in layer: pool = self.pool\n"),
        ("pool = self.pool\n", "setattr(self, 'pool', layer); pool = self.pool\n"),
        ("pool = self.pool\n", "setattr(self, layer, 1); pool = self.pool\n"),
        ("pool = self.pool\n", "vars(self)['pool'] = layer; pool = self.pool\n"),
        ("pool = self.pool\n", "self.__dict__ = layer; pool = self.pool\n"),
        ("pool = self.pool\n", "del self.pool; pool = self.pool\n"),
        ("def forward(self):", "def forward(self, backend):\n        backend.pool = 1"),
        ("self.pool = runner.pool", "if runner: self.pool = runner.pool"),  # or not at all
        ("self.pool = runner.pool", "self.pool = runner.pool; (\n)"),  # no line of its own
        ("self.windowed", "self.pair"),  # the name is taken
        ("    def other", "    def pair(self): ...\n\n    def other"),
        ("class Backend:", "class Backend:\n    __slots__ = 'pool', 'windowed'\n"),
        ("class Backend", "class Renamed"),
    ],
)
def test_where_there_is_no_room_methods_ask_as_anywhere(
    change: tuple[str, str], tmp_path: Path
) -> None:
    got = rewritten(BEFORE.replace(*change), tmp_path)
    assert "is not None" not in got
    assert got.count("SWAComposite)") == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("operand", "pool.x()"),
        ("operand", "pool"),
        ("as", "a b"),
        ("as", "class"),
        ("capability", "X"),
    ],
)
def test_mistakes_are_named(key: str, value: str, tmp_path: Path) -> None:
    lines = [f'{key} = "{value}"' if line.startswith(key) else line for line in BIND.splitlines()]
    with pytest.raises(BadInput, match=rf"bind\[0\]\.{key}: "):
        profile_of(tmp_path, TOML + "\n".join(lines))
