"""A profile is read whole, or refused in one line that names the file and the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvproto._bad_input import BadInput
from kvproto.gates import load_profile
from tests.gates.small_profile import TOML, profile_of

WRONG = [
    ("nonsense", "engine.toml: Expected '=' after a key"),
    (TOML.replace('package = "engine"', ""), "engine.toml: package: is missing"),
    (TOML.replace('"engine 1"', "1"), "engine.toml: covers: must be a string"),
    (TOML.replace('["pool", "get_pool", "allocator"]', "[1]"), "operands: must be a string or"),
    (
        TOML + "[speed]",
        "engine.toml: speed: no such key; there is attributes, bind, class_table, classes",
    ),
    (TOML + "[classes.A]\nasks = 'a'", "classes.A: needs one answer, there is none of"),
    (
        TOML + "[classes.A]\ncapability = 'MHARows'\nperson = 'b'",
        "classes.A: needs one answer, there is person and capability",
    ),
    (TOML + "[classes.A]\ncapability = 'Rows'", "classes.A.capability: no capability Rows in"),
    (TOML + "[classes.A]\ncapability = 'MHARow'", "in [modules]; is MHARows meant?"),
    (TOML + "[classes.Pair]\ncapability = 'MHARows'", "('classes', 'Pair') twice (at line"),
    (TOML + "[classes.'A.B']\ncapability = 'MHARows'", "classes.A.B: is no name of a class"),
    (TOML + "[classes.A]\nasks = 'a'\nany = []", "classes.A.any: is empty"),
    (
        TOML + "[classes.A]\nasks = 'a'\ntraits = { kind = [] }",
        "traits.kind: is empty; there is mha",
    ),
    (TOML + "[exact.A]\ncapability = 'MHARows'", "exact.A: no class A in [classes]"),
    (TOML + "[modules]\nA = 'no.where'\n[classes.B]\ncapability = 'A'", "no.where cannot be imp"),
    (TOML + "[modules]\nA = 'os'\n[classes.B]\ncapability = 'A'", "there is no class A in os"),
    (TOML + "[modules]\nA = 'o s'", "engine.toml: modules.A: 'o s' is no module"),
    (TOML + "[[hot]]\nfile = 'a'\nscope = ''", "hot[0].scope: must be a string, not empty"),
    (TOML + "[classes.A]\ncapability = 'PoolTraits'", "no capability PoolTraits in"),
    (TOML + "[classes.A]\nperson = 'b'", "classes.A.asks: is missing"),
    (TOML + "[classes.A]\nask = 'b'\nperson = 'b'", "classes.A.ask: no such key; there is any"),
    (
        TOML + "[classes.A]\nasks = 'a'\ntraits = { colour = 'red' }",
        "classes.A.traits.colour: no such trait; there is kind, layout",
    ),
    (
        TOML + "[classes.A]\nasks = 'a'\ntraits = { kind = 'red' }",
        "classes.A.traits.kind: 'red' is none of mha, mla",
    ),
    (
        TOML + "[attributes.a]\nmember_of = 'MHARows'",
        "attributes.a.member_of: MHARows has no a",
    ),
    (TOML + "[classes.A]\nmember_of = 'MHARows'", "classes.A.member_of: no such key"),
    (
        TOML + "[attributes.a]\nasks = 'a'\nperson = 'b'\ndiffers = 'c'",
        "attributes.a.differs: is of an answer",
    ),
    (TOML + "[[override]]\nclasses = ['A']\ncapability = 'MHARows'\nwhy = 'b'", "no class A in"),
    (
        TOML + "[[override]]\nclasses = 'Pair'\nattribute = 'a'\ncapability = 'MHARows'\nwhy = 'b'",
        "override[1].attribute: a gate asks for classes or a member",
    ),
    (TOML + "[[override]]\ncapability = 'MHARows'", "override[1].why: is missing"),
    (
        TOML + "[[module_of_file]]\nfile = 'a'\nmodule = 'kvproto.nowhere'\nnames = 'b'",
        "module_of_file[0].module: cannot be imported: No module named 'kvproto.nowhere'",
    ),
    (
        TOML + "[[module_of_file]]\nfile = 'a'\nmodule = 'kvproto.gates'\nnames = 'b'",
        "module_of_file[0].names: there is no b in kvproto.gates",
    ),
    (TOML + "[override]", "Cannot declare ('override',) twice"),
    (TOML.replace("[[not_a_pool]]", "[not_a_pool]"), "must be a list of tables: [[not_a_pool]]"),
]


@pytest.mark.parametrize(("text", "line"), WRONG)
def test_mistakes_are_named(text: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as told:
        profile_of(tmp_path, text)
    assert line in str(told.value)
    assert "\n" not in str(told.value)


def test_no_such_profile(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither a profile \\(sglang\\) nor a file named"):
        load_profile("engine")
    with pytest.raises(BadInput, match=r"cannot be read: .*No such file"):
        load_profile(str(tmp_path / "a.toml"))


def test_every_rule_of_the_shipped_profile_has_a_question_of_its_own_words() -> None:
    profile = load_profile("sglang")
    rules = [*profile.classes.values(), *profile.exact.values(), *profile.attributes.values()]
    rules += [override.rule for override in profile.overrides]
    assert all(rule.asks.endswith("?") for rule in rules)
    assert len(profile.classes) > 80
