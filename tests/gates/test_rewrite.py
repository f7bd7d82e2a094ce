"""Each kind of rewrite, whole files before and after, written by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kvproto.gates import Profile
from kvproto.gates.rewrite import rewrite
from kvproto.gates.rewritten import Rewritten
from tests.gates.small_profile import TOML, profile_of

IMPORT = "from engine.pools import Heads, Latent, Pair, Spec\n"


def rewritten(source: str, profile: Profile, exported: bool = False) -> Rewritten:
    return rewrite(source.encode(), "engine/user.py", profile, lambda _name: exported)


def after(source: str, profile: Profile, exported: bool = False) -> str:
    return rewritten(source, profile, exported).after.decode()


GOLDEN = {
    "one class": (
        "from engine.pools import Pair\n\n\ndef f(pool):\n    return isinstance(pool, Pair)\n",
        "from kvproto.protocols import SWAComposite\n\n\n"
        "def f(pool):\n    return isinstance(pool, SWAComposite)\n",
    ),
    "several classes": (
        "from engine.pools import Heads, Pair\nok = not isinstance(a.pool, (Pair, Heads))\n",
        "from kvproto.protocols import MHARows, SWAComposite\n"
        "ok = not isinstance(a.pool, (SWAComposite, MHARows))\n",
    ),
    "a value": (
        "from engine.pools import Latent\nok = isinstance(get_pool(), Latent)\n",
        'from kvproto.protocols import declares\nok = declares(get_pool(), kind=("mla", "dsa"))\n',
    ),
    "a class or a value": (
        "from engine.pools import Latent, Pair\nok = x and isinstance(p, (Pair, Latent))\n",
        "from kvproto.protocols import SWAComposite, declares\n"
        'ok = x and (isinstance(p, SWAComposite) or declares(p, kind=("mla", "dsa")))\n',
    ),
    "the very class": (
        "from engine.pools import Heads\nif type(p) is Heads:\n    pass\n",
        "from kvproto.protocols import MHARows, declares\n"
        'if (isinstance(p, MHARows) and declares(p, layout="nhd")):\n    pass\n',
    ),
    "not the very class": (
        "from engine.pools import Heads\n"
        "if type(p) is not Heads or x == (type(p) != Heads):\n    pass\n",
        "from kvproto.protocols import MHARows, declares\n"
        'if not (isinstance(p, MHARows) and declares(p, layout="nhd"))'
        ' or x == ((not (isinstance(p, MHARows) and declares(p, layout="nhd")))):\n    pass\n',
    ),
    "what does not fit into a line": (
        "from engine.pools import Latent, Pair\n"
        "class C:\n"
        "    def f(self):\n"
        "        if isinstance(self.a_rather_long_name_for_a_pool, (Pair, Latent)):\n"
        "            pass\n",
        "from kvproto.protocols import SWAComposite, declares\n"
        "class C:\n"
        "    def f(self):\n"
        "        if (\n"
        "            isinstance(self.a_rather_long_name_for_a_pool, SWAComposite)\n"
        '            or declares(self.a_rather_long_name_for_a_pool, kind=("mla", "dsa"))\n'
        "        ):\n"
        "            pass\n",
    ),
    "the pool stays as it is written": (
        "from engine.pools import Pair\n"
        "ok = isinstance(\n    pools [ 0 ],  # the first\n    Pair,\n)\n",
        "from kvproto.protocols import SWAComposite\n"
        "ok = isinstance(\n    pools [ 0 ],  # the first\n    SWAComposite,\n)\n",
    ),
    "a tuple under a name": (
        "from engine.pools import Heads, Pair\nBOTH = (Pair, Heads)\nok = isinstance(p, BOTH)\n",
        "from engine.pools import Heads, Pair\n"
        "from kvproto.protocols import MHARows, SWAComposite\n"
        "BOTH = (Pair, Heads)\nok = isinstance(p, (SWAComposite, MHARows))\n",
    ),
    "imports in a function": (
        "import os\n\n\n"
        "def f(p):\n    from engine.pools import Pair\n\n    return isinstance(p, Pair)\n",
        "import os\nfrom kvproto.protocols import SWAComposite\n\n\n"
        "def f(p):\n    return isinstance(p, SWAComposite)\n",
    ),
    "an import that is all of a block": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from engine.pools import Pair\n"
        "def f(p):\n    if TYPE_CHECKING:\n        assert isinstance(p, Pair)\n",
        "from typing import TYPE_CHECKING\nfrom kvproto.protocols import SWAComposite\n"
        "if TYPE_CHECKING:\n    pass\n"
        "def f(p):\n    if TYPE_CHECKING:\n        assert isinstance(p, SWAComposite)\n",
    ),
    "an import that may fail": (
        "def f(p):\n    try:\n        from engine.pools import Pair\n"
        "    except ImportError:\n        return False\n    return isinstance(p, Pair)\n",
        "from kvproto.protocols import SWAComposite\n"
        "def f(p):\n    try:\n        from engine.pools import Pair\n"
        "    except ImportError:\n        return False\n    return isinstance(p, SWAComposite)\n",
    ),
    "an import behind the head of its block": (
        "class C: from engine.pools import Pair\nisinstance(p, C.Pair)\n"
        "def f(p, q):\n    if q: from engine.pools import Pair\n    return isinstance(p, Pair)\n",
        "from kvproto.protocols import SWAComposite\n"
        "class C: from engine.pools import Pair\nisinstance(p, C.Pair)\n"
        "def f(p, q):\n    if q: from engine.pools import Pair\n"
        "    return isinstance(p, SWAComposite)\n",
    ),
    "an import over several lines": (
        "from engine.pools import (\n    Heads,\n    Pair,  # the pair\n    Spec,\n)\n"
        "isinstance(p, Pair)\nHeads\n",
        "from engine.pools import (\n    Heads,\n    Spec,\n)\n"
        "from kvproto.protocols import SWAComposite\nisinstance(p, SWAComposite)\nHeads\n",
    ),
    "an import that is used otherwise": (
        "from engine.pools import Pair\nisinstance(p, Pair)\ndef f() -> Pair: ...\n",
        "from engine.pools import Pair\nfrom kvproto.protocols import SWAComposite\n"
        "isinstance(p, SWAComposite)\ndef f() -> Pair: ...\n",
    ),
    "an import that a string names": (
        "from engine.pools import Pair\nisinstance(p, Pair)\nx: 'list[Pair]' = []\n",
        "from engine.pools import Pair\nfrom kvproto.protocols import SWAComposite\n"
        "isinstance(p, SWAComposite)\nx: 'list[Pair]' = []\n",
    ),
    "an import that a comment names": (
        "from engine.pools import Pair\nisinstance(p, Pair)\nx = []  # type: list[Pair]\n",
        "from engine.pools import Pair\nfrom kvproto.protocols import SWAComposite\n"
        "isinstance(p, SWAComposite)\nx = []  # type: list[Pair]\n",
    ),
    "an import that is listed": (
        "from engine.pools import Pair\n__all__ = 'f Pair'.split()\nisinstance(p, Pair)\n",
        "from engine.pools import Pair\nfrom kvproto.protocols import SWAComposite\n"
        "__all__ = 'f Pair'.split()\nisinstance(p, SWAComposite)\n",
    ),
    "an import that makes an attribute": (
        "class C:\n    from engine.pools import Pair\n    ok = isinstance(p, Pair)\n",
        "from kvproto.protocols import SWAComposite\n"
        "class C:\n    from engine.pools import Pair\n    ok = isinstance(p, SWAComposite)\n",
    ),
    "an import that is there": (
        "from kvproto.protocols import SWAComposite\nfrom engine.pools import Pair\n"
        "isinstance(p, Pair)\n",
        "from kvproto.protocols import SWAComposite\nisinstance(p, SWAComposite)\n",
    ),
    "an import that is there for checkers only": (
        "from engine.pools import Pair\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from kvproto.protocols import SWAComposite\nisinstance(p, Pair)\n",
        "from typing import TYPE_CHECKING\nfrom kvproto.protocols import SWAComposite\n"
        "if TYPE_CHECKING:\n    from kvproto.protocols import SWAComposite\n"
        "isinstance(p, SWAComposite)\n",
    ),
    "a class pattern": (
        "from engine.pools import Heads, Pair\nmatch p:\n    case Pair() | (Heads() as q):\n"
        "        pass\n",
        "from kvproto.protocols import MHARows, SWAComposite\n"
        "match p:\n    case SWAComposite() | (MHARows() as q):\n        pass\n",
    ),
    "the classes of a class": (
        "from engine.pools import Pair\n"
        "if Pair in type(p).__mro__ and Pair not in q.__class__.mro():\n    pass\n",
        "from kvproto.protocols import SWAComposite\n"
        "if isinstance(p, SWAComposite) and not isinstance(q, SWAComposite):\n    pass\n",
    ),
    "an import of everything": (
        "from engine.pools import *\nisinstance(p, Pair)\n",
        "from engine.pools import *\nfrom kvproto.protocols import SWAComposite\n"
        "isinstance(p, SWAComposite)\n",
    ),
    "what is awaited, assigned or yielded on the way": (
        "from engine.pools import Latent\nasync def f():\n"
        "    isinstance(await g(), Latent), isinstance(p := g(), Latent)\n"
        "    isinstance((yield), Latent)\n",
        "from kvproto.protocols import declares\nasync def f():\n"
        '    declares(await g(), kind=("mla", "dsa")), declares(p := g(), kind=("mla", "dsa"))\n'
        '    declares((yield), kind=("mla", "dsa"))\n',
    ),
    "where imports begin": (
        '#!/usr/bin/env python\n"""Doc."""\nclass Pair: ...\nisinstance(p, Pair)\n',
        '#!/usr/bin/env python\n"""Doc."""\nfrom kvproto.protocols import SWAComposite\n'
        "class Pair: ...\nisinstance(p, SWAComposite)\n",
    ),
    "no imports, no docstring": (
        "# a comment\nclass Pair: ...\nisinstance(p, Pair)\n",
        "# a comment\nfrom kvproto.protocols import SWAComposite\n"
        "class Pair: ...\nisinstance(p, SWAComposite)\n",
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_golden(kind: str, engine: Profile) -> None:
    before, expected = GOLDEN[kind]
    got = after(before, engine)
    assert got == expected
    ast.parse(got)
    assert after(got, engine) == got


TABLES = """
[[class_table]]
file = "engine/user.py"
name = "BASES"
why = "a class is built, and used as a pool"
"""

ASKED = """\
    base = BASES[kind]
    if not issubclass(cls, base) or issubclass(cls, BASES["pair"]):
        raise TypeError(f"{cls} is no {base.__name__}")
"""


def test_a_table_of_classes_keeps_each_beside_its_capability(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, TOML + TABLES)
    source = (
        "from engine.pools import Heads, Pair\n"
        'BASES: dict[str, type] = {\n    "heads": Heads,  # rows\n    "pair": Pair,\n}\n'
        f"def check(cls, kind):\n{ASKED}"
    )
    expected = (
        "from engine.pools import Heads, Pair\n"
        "from kvproto.protocols import MHARows, SWAComposite, either\n"
        'BASES: dict[str, type] = {\n    "heads": either(Heads, MHARows),  # rows\n'
        '    "pair": either(Pair, SWAComposite),\n}\n'
        f"def check(cls, kind):\n{ASKED}"
    )
    assert after(source, profile) == expected
    assert after(expected, profile) == expected
    got = rewritten(source, profile)
    assert ([gate.kind for gate in got.done], got.left) == (["issubclass"] * 2, ())


def test_a_tuple_of_classes_for_issubclass(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, TOML + TABLES)
    source = "from engine.pools import Pair\nBASES = (Pair,)\nissubclass(c, BASES)\n"
    assert after(source, profile) == (
        "from engine.pools import Pair\nfrom kvproto.protocols import SWAComposite, either\n"
        "BASES = (either(Pair, SWAComposite),)\nissubclass(c, BASES)\n"
    )


DICT = 'BASES = {"heads": Heads, "pair": Pair}\n'
LEFT_TABLES = [
    (DICT + "issubclass(c, BASES[k])\nBASES[k]()", "may be used for more"),
    (DICT + "issubclass(c, BASES[k])\nBASES[k] = c", "may be used for more"),
    (DICT + "base = BASES[k]\nissubclass(c, base)\nmake(base)", "may be used for more"),
    (DICT + "issubclass(c, BASES[k])\nc in BASES.values()", "may be used for more"),
    ('BASES = {"a": Pair, "b": Other}\nissubclass(c, BASES[k])', "more than classes"),
    ('BASES = {"a": Pair, "b": Latent}\nissubclass(c, BASES[k])', "no capability alone"),
    (DICT.replace("BASES", "OTHERS") + "isinstance(p, OTHERS[k])", "is chosen at run time"),
    (DICT.replace("BASES", "OTHERS") + "issubclass(c, OTHERS[k])", "before there is a pool"),
]


@pytest.mark.parametrize(("source", "why"), LEFT_TABLES)
def test_a_table_that_is_left_says_why(source: str, why: str, tmp_path: Path) -> None:
    got = rewritten(IMPORT + source, profile_of(tmp_path, TOML + TABLES))
    assert got.after == got.before
    assert [why in left.why for left in got.left][:1] == [True]


def test_a_table_that_another_module_may_import_is_left(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, TOML + TABLES)
    got = rewritten(IMPORT + DICT + "issubclass(c, BASES[k])", profile, exported=True)
    assert got.after == got.before


LEFT = [
    ("isinstance(p, Spec)", "plain data"),
    ("issubclass(cls, Heads)", "a class is asked before there is a pool"),
    ("isinstance(get_pool(), (Pair, Latent))", "would be made twice"),
    ("type(a) is type(b) is Heads", "one of several comparisons in a chain"),
    ("isinstance(p, (\n    Pair,  # pairs\n    Heads,\n))", "a comment inside it would be lost"),
    ("SWAComposite = 1\nisinstance(p, Pair)", "SWAComposite means something else"),
    ("from x import *\nSWAComposite\nisinstance(p, Pair)", "SWAComposite means something else"),
    ("f'isinstance(p, Pair) {isinstance(p, Pair)}'", "it stands in an f-string"),
    ("isinstance(*p, Latent)", "no expression says it"),
    ("match p:\n    case Pair(full=x): pass", "a class pattern also takes the object apart"),
    ("match p:\n    case Latent(): pass", "no class pattern says it: it takes a guard"),
    ("import os; x = (\n1)\nisinstance(p, Pair)", "the file could not be parsed any more"),
    ("def f(declares): return isinstance(p, Latent)", "declares means something else"),
]


@pytest.mark.parametrize(("source", "why"), LEFT)
def test_what_is_left_says_why(source: str, why: str, engine: Profile) -> None:
    got = rewritten(IMPORT + source, engine)
    assert got.after == got.before
    assert [why in left.why for left in got.left] == [True]


def test_what_another_module_may_import_stays(engine: Profile) -> None:
    source = "from engine.pools import Pair\nisinstance(p, Pair)\n"
    assert "import Pair" not in after(source, engine)
    assert "import Pair" in after(source, engine, exported=True)


def test_members_are_not_rewritten(engine: Profile) -> None:
    source = IMPORT + "hasattr(pool, 'full_kv_pool')\n"
    assert after(source, engine) == source


NOMINAL = """
[[module_of_file]]
file = "engine/user.py"
module = "kvproto.adapters.sglang.nominal"
names = ["SWAComposite"]
"""


def test_one_file_may_import_a_capability_from_elsewhere(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, TOML + NOMINAL)
    source = "from engine.pools import Heads, Pair\nisinstance(p, (Pair, Heads))\n"
    expected = (
        "from kvproto.adapters.sglang.nominal import SWAComposite\n"
        "from kvproto.protocols import MHARows\n"
        "isinstance(p, (SWAComposite, MHARows))\n"
    )
    assert after(source, profile) == expected
    assert after(expected, profile) == expected
    again = after(expected + "from engine.pools import Pair\nisinstance(q, Pair)\n", profile)
    assert again == expected + "isinstance(q, SWAComposite)\n"
    elsewhere = rewrite(source.encode(), "engine/other.py", profile, lambda _: False).after
    assert b"nominal" not in elsewhere


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_ends_of_lines_stay(newline: str, engine: Profile) -> None:
    before, expected = (text.replace("\n", newline) for text in GOLDEN["a class or a value"])
    assert after(before, engine) == expected


def test_the_encoding_stays(engine: Profile) -> None:
    head = "# -*- coding: latin-1 -*-\n"
    text = "{}from engine.pools import Pair\nx = 'é', isinstance(p, Pair), 'ü'\n"
    got = rewrite(text.format(head).encode("latin-1"), "a.py", engine, lambda _: True)
    expected = (
        text.format(head)
        .replace(", Pair)", ", SWAComposite)")
        .replace("import Pair\n", "import Pair\nfrom kvproto.protocols import SWAComposite\n")
    )
    assert got.after == expected.encode("latin-1")


def test_the_byte_order_mark_stays(engine: Profile) -> None:
    source = b"\xef\xbb\xbf# \xc3\xa9\nfrom engine.pools import Pair\nisinstance(p, Pair)\n"
    got = rewrite(source, "a.py", engine, lambda _: True).after
    assert got.startswith(b"\xef\xbb\xbf# \xc3\xa9\n")
    assert b"isinstance(p, SWAComposite)" in got


@pytest.mark.parametrize("source", [b"x = (", b"# coding: nix\n", b"# coding: ascii\n# \xc3\xa9\n"])
def test_what_cannot_be_read_is_refused(source: bytes, engine: Profile) -> None:
    with pytest.raises(SyntaxError):
        rewrite(source, "a.py", engine, lambda _: True)
