"""A class that keeps its pool asks once, where the profile says that nobody swaps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvproto._bad_input import BadInput
from kvproto.gates.rewrite import rewrite
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
    profile = profile_of(folder, TOML + BIND)
    return rewrite(source.encode(), "backend.py", profile, lambda _: False).after.decode()


def test_methods_test_what_was_bound(tmp_path: Path) -> None:
    assert rewritten(BEFORE, tmp_path) == AFTER
    assert rewritten(AFTER, tmp_path) == AFTER


@pytest.mark.parametrize(
    "change",
    [
        ("pool = self.pool\n", "self.pool = pool = layer\n"),  # taken again
        ("self.pool = runner.pool", "if runner: self.pool = runner.pool"),  # or not at all
        ("self.windowed", "self.pair"),  # the name is taken
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
    ("key", "value"), [("operand", "pool.x()"), ("as", "a b"), ("capability", "Nix")]
)
def test_mistakes_are_named(key: str, value: str, tmp_path: Path) -> None:
    lines = [f'{key} = "{value}"' if line.startswith(key) else line for line in BIND.splitlines()]
    with pytest.raises(BadInput, match=rf"bind\[0\]\.{key}: "):
        profile_of(tmp_path, TOML + "\n".join(lines))
