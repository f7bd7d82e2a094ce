"""Profiles as TOML; every mistake is one line that names the file and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module, resources
from keyword import iskeyword
from pathlib import Path

from kvproto._bad_input import BadInput

from .profile import AskedTable, Bind, NotAPool, Override, Profile
from .rule_table import RuleTable
from .toml_table import Table

__all__ = ["built_in_profiles", "load_profile"]

_POOLS = ("package", "covers", "operands", "pool_of_file", "not_a_pool")
_RULES = ("classes", "exact", "attributes", "override", "hot", "bind", "class_table")
_KEYS = frozenset((*_POOLS, *_RULES, "modules", "module_of_file"))


@cache
def load_profile(name: str) -> Profile:
    """A built-in profile by name, or the one in a file whose name ends in `.toml`.

    :raises BadInput: for a name that is neither, and for the first mistake in the file.
    """
    if name in built_in_profiles():
        text = (resources.files("kvproto.gates") / "profiles" / f"{name}.toml").read_text("utf-8")
        return _profile(f"profile {name}", name, text)
    if not name.endswith(".toml"):
        known = ", ".join(built_in_profiles())
        raise BadInput(f"--profile {name}: neither a profile ({known}) nor a file named *.toml")
    try:
        text = Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--profile {name}: cannot be read: {error}") from None
    return _profile(name, Path(name).stem, text)


def built_in_profiles() -> list[str]:
    """The profiles that are shipped."""
    folder = resources.files("kvproto.gates") / "profiles"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def _profile(where: str, name: str, text: str) -> Profile:
    try:
        top = Table(where, "", tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{where}: {error}") from None
    top.only(_KEYS)
    modules = {key: top.table("modules").dotted(key) for key in top.table("modules")}
    rules = RuleTable(modules)
    profile = Profile(
        name=name,
        package=top.text("package"),
        covers=top.text("covers"),
        operands=frozenset(top.texts("operands")),
        classes={name: rules.of_class(table) for name, table in top.named("classes")},
        exact={name: rules.of_class(table) for name, table in top.named("exact")},
        attributes={
            name: rules.of_attribute(table, name) for name, table in top.named("attributes")
        },
        pools_of_files=tuple(_pair(table, "operand") for table in top.tables("pool_of_file")),
        not_pools=tuple(_not_a_pool(table) for table in top.tables("not_a_pool")),
        overrides=tuple(_override(table, rules) for table in top.tables("override")),
        hot=tuple(_pair(table, "scope") for table in top.tables("hot")),
        binds=tuple(_bind(table, rules) for table in top.tables("bind")),
        tables=tuple(_table(table) for table in top.tables("class_table")),
        modules=modules,
        modules_of_files=tuple(
            one for table in top.tables("module_of_file") for one in _modules_of_file(table)
        ),
    )
    _check_names(top, profile)
    return profile


def _check_names(top: Table, profile: Profile) -> None:
    for name in profile.classes:
        if not name.isidentifier():
            raise top.wrong(f"classes.{name}", "is no name of a class: leave its module out")
    for unknown in sorted(set(profile.exact) - set(profile.classes)):
        raise top.wrong(f"exact.{unknown}", f"no class {unknown} in [classes]")
    for table, override in zip(top.tables("override"), profile.overrides, strict=True):
        for unknown in sorted(set(override.classes or ()) - set(profile.classes)):
            raise table.wrong("classes", f"no class {unknown} in [classes]")


def _not_a_pool(table: Table) -> NotAPool:
    table.only({"file", "operand", "why"})
    return NotAPool(file=table.text("file"), operand=table.text("operand"), why=table.text("why"))


def _table(table: Table) -> AskedTable:
    table.only({"file", "name", "why"})
    return AskedTable(file=table.text("file"), name=table.text("name"), why=table.text("why"))


def _bind(table: Table, rules: RuleTable) -> Bind:
    table.only({"file", "scope", "operand", "capability", "as"})
    own, _, attribute = table.text("operand").rpartition(".")
    for key, name in (("operand", attribute if own == "self" else ""), ("as", table.text("as"))):
        if not name.isidentifier() or iskeyword(name):
            raise table.wrong(
                key, "must be an attribute: `self.pool` as operand, `pool_view` as name"
            )
    return Bind(
        file=table.text("file"),
        scope=table.text("scope"),
        operand=table.text("operand"),
        capability=rules.capability(table, "capability", table.text("capability")),
        name=table.text("as"),
    )


def _modules_of_file(table: Table) -> Iterator[tuple[str, str, str]]:
    table.only({"file", "module", "names"})
    module = table.dotted("module")
    try:
        there = vars(import_module(module))
    except ImportError as error:
        raise table.wrong("module", f"cannot be imported: {error}") from None
    for name in table.texts("names"):
        if name not in there:
            raise table.wrong("names", f"there is no {name} in {module}")
        yield table.text("file"), name, module


def _pair(table: Table, key: str) -> tuple[str, str]:
    table.only({"file", key})
    return table.text("file"), table.text(key)


def _override(table: Table, rules: RuleTable) -> Override:
    classes = tuple(table.texts("classes")) if "classes" in table else None
    attribute = table.text("attribute") if "attribute" in table else None
    if classes is not None and attribute is not None:
        raise table.wrong("attribute", "a gate asks for classes or a member: give one of the two")
    answered = table.without({"file", "scope", "classes", "attribute", "operand", "why"})
    return Override(
        file=_optional(table, "file"),
        scope=_optional(table, "scope"),
        classes=classes,
        attribute=attribute,
        operand=_optional(table, "operand"),
        rule=rules.of_attribute(answered, attribute) if attribute else rules.of_class(answered),
        why=table.text("why"),
    )


def _optional(table: Table, key: str) -> str | None:
    return table.text(key) if key in table else None
