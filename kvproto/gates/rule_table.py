"""The rules of a profile: a question, and in the same table what answers it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

from kvproto import protocols
from kvproto.protocols import TRAIT_DOMAINS, Capability

from .answers import AllOf, Answer, AnyOf, Member, Near, Person
from .profile import Rule
from .toml_table import Table

__all__ = ["RuleTable"]

_TEST = frozenset({"capability", "without", "traits"})
_CLASS = _TEST | {"asks", "any", "person"}


class RuleTable:
    """Reads rules; `modules` has the capabilities that are not of `kvproto.protocols`."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def of_class(self, table: Table) -> Rule:
        """:raises BadInput: where there is no answer, or more than one, or an unknown name."""
        table.only(_CLASS)
        return self._rule(table)

    def of_attribute(self, table: Table, attribute: str) -> Rule:
        """As `of_class`; `member_of = "Capability"` is one more answer.

        `differs` says which pools do not answer the member as they answer that.
        """
        table.only(_CLASS | {"member_of", "differs"})
        rule = self._rule(table.without({"differs"}))
        if isinstance(rule.answer, Member):
            capability = rule.answer.capability
            if not hasattr(self._protocol(table, "member_of", capability), attribute):
                raise table.wrong("member_of", f"{capability} has no {attribute}")
        return self._near(rule, table) if "differs" in table else rule

    def _near(self, rule: Rule, table: Table) -> Rule:
        match rule.answer:
            case AllOf() | AnyOf() | Member() as meant:
                return Rule(rule.asks, Near(meant, table.text("differs")))
            case _:
                raise table.wrong("differs", "is of an answer: there is none but a person")

    def _protocol(self, table: Table, key: str, capability: str) -> type:
        where = self._modules.get(capability, "kvproto.protocols")
        try:
            there = vars(import_module(where))
        except ImportError as error:
            raise table.wrong(key, f"{where} cannot be imported: {error}") from None
        protocol = there.get(capability)
        if not isinstance(protocol, type):
            raise table.wrong(key, f"there is no class {capability} in {where}")
        return protocol

    def _rule(self, table: Table) -> Rule:
        answer = self._answer(table)
        if "asks" in table:
            return Rule(table.text("asks"), answer)
        match answer:
            case AllOf(capabilities=(name,)):
                return Rule(self._question(table, "capability", name), answer)
            case Member(capability=name):
                return Rule(self._question(table, "member_of", name), answer)
            case _:
                raise table.wrong("asks", "is missing: only one capability alone has a question")

    def _question(self, table: Table, key: str, capability: str) -> str:
        question = (self._protocol(table, key, capability).__doc__ or "?").splitlines()[0]
        return question[0].lower() + question[1:]

    def _answer(self, table: Table) -> Answer:
        kinds = [key for key in ("any", "person", "member_of") if key in table]
        kinds += ["capability, traits"] if _TEST & set(table) else []
        if len(kinds) != 1:
            there = " and ".join(kinds) or "none of capability, traits, any, person"
            raise table.wrong("", f"needs one answer, there is {there}")
        match kinds[0]:
            case "person":
                return Person(table.text("person"))
            case "member_of":
                return Member(self.capability(table, "member_of", table.text("member_of")))
            case "any":
                options = tuple(self._option(option) for option in table.tables("any"))
                if not options:
                    raise table.wrong("any", "is empty: name what will do")
                return AnyOf(options)
            case _:
                return self._test(table)

    def _option(self, table: Table) -> AllOf:
        table.only(_TEST)
        return self._test(table)

    def _test(self, table: Table) -> AllOf:
        traits = table.table("traits")
        test = AllOf(
            tuple(self.capability(table, "capability", n) for n in table.texts("capability")),
            tuple(self.capability(table, "without", n) for n in table.texts("without")),
            tuple((field, _values(traits, field)) for field in traits),
        )
        if not test.capabilities and not test.traits:
            raise table.wrong("", "needs a capability or a trait")
        return test

    def capability(self, table: Table, key: str, name: str) -> str:
        """The name.

        :raises BadInput: where there is no capability of this name.
        """
        if name in self._modules:
            return name
        known = getattr(protocols, name, None) if name in protocols.__all__ else None
        if not (isinstance(known, type) and Capability in known.__mro__):
            near = get_close_matches(name, [*protocols.__all__, *self._modules], n=1)
            meant = f"; is {near[0]} meant?" if near else ""
            raise table.wrong(
                key, f"no capability {name} in kvproto.protocols or in [modules]{meant}"
            )
        return name


def _values(traits: Table, field: str) -> tuple[str, ...]:
    if field not in TRAIT_DOMAINS:
        raise traits.wrong(field, f"no such trait; there is {', '.join(TRAIT_DOMAINS)}")
    values = tuple(traits.texts(field))
    if not values:
        raise traits.wrong(field, f"is empty; there is {', '.join(TRAIT_DOMAINS[field])}")
    for value in values:
        if value not in TRAIT_DOMAINS[field]:
            raise traits.wrong(field, f"{value!r} is none of {', '.join(TRAIT_DOMAINS[field])}")
    return values
