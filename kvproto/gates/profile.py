"""What is known of one code base: its pool classes, and what each is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from .answers import Answer

__all__ = ["AskedTable", "Bind", "NotAPool", "Override", "Profile", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """The question behind a class or a member, and its answer."""

    asks: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Another rule for the gates of some places; what is None matches everything."""

    file: str | None
    scope: str | None
    classes: tuple[str, ...] | None
    attribute: str | None
    operand: str | None
    rule: Rule
    why: str
    """Why these places ask for something else than the class stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAPool:
    """An operand that is named like a pool and is none."""

    file: str
    operand: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A pool that a class's `__init__` takes once and for all: its methods need not ask again.

    After `self.pool = ...` the capability is asked for and kept under `name`: the pool, or None.
    Only for a pool that nobody swaps on a live object, which no scan of one class can tell.
    """

    file: str
    scope: str
    """The class."""
    operand: str
    """`self.` and an attribute."""
    capability: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTable:
    """A table of classes in a module, each of which may be the capability of its class as well.

    The class stays beside the capability: before there is a pool, one that assigns its members in
    `__init__` shows no capability.
    """

    file: str
    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A code base, as data. `files` are relative to the top of `package`, with forward slashes.

    `classes` answers `isinstance`, `exact` tests of the very class (`type(pool) is C`),
    `attributes` what is probed by name. `operands` are the last names of expressions that are
    pools, allocators, request tables or host pools: `token_to_kv_pool` also stands for
    `self.runner.token_to_kv_pool`.
    """

    name: str
    package: str
    covers: str
    classes: dict[str, Rule]
    exact: dict[str, Rule]
    attributes: dict[str, Rule]
    operands: frozenset[str]
    pools_of_files: tuple[tuple[str, str], ...]
    """Names (file, name) that are pools in one file, and anything elsewhere."""
    not_pools: tuple[NotAPool, ...]
    overrides: tuple[Override, ...]
    hot: tuple[tuple[str, str], ...]
    """Places (file, scope) on a path that runs per layer or per step."""
    binds: tuple[Bind, ...]
    tables: tuple[AskedTable, ...]
    modules: dict[str, str]
    """Capability -> the module that has it; the others are in `kvproto.protocols`."""
    modules_of_files: tuple[tuple[str, str, str], ...]
    """Names (file, name, module) that are imported from another module in one file."""

    @property
    def exportable(self) -> tuple[str, ...]:
        """What a rewrite may take from a module, or change in it, unless another imports it."""
        return (*self.classes, *(each.name for each in self.tables))
