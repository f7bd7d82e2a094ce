"""Which rule of a profile a gate falls under."""

from __future__ import annotations

from .answers import AllOf, Answer, AnyOf, ByClass, Person
from .class_tables import table_of
from .files import file_is
from .found import Found, Place
from .gate import EXACT_KINDS
from .profile import Override, Profile, Rule

__all__ = ["rule_for"]

_BY_HAND = {
    "issubclass": "a class is asked before there is a pool: what a vendor's class must offer",
    "class-is": "a class object is compared: what the one class has that others lack",
    "class-name": "a class is told by the letters of its name",
    "dispatch": "a table is keyed by class: who registers what a vendor's pool needs",
    "match": "a class pattern also takes the object apart",
    "method-is": "a method is told by who defined it: the class declares what it does instead",
}
"""Kinds that no default answers: only an override says what the place wants."""


def rule_for(
    found: Found, place: Place, file: str, operand: str, profile: Profile
) -> tuple[Rule, str]:
    """The rule, and why this place has one of its own (empty where it has not)."""
    for override in profile.overrides:
        if _fits(override, found, place, file, operand):
            return override.rule, override.why
    if found.attribute is not None:
        unknown = Person(f"the profile has no answer for {found.attribute}")
        asks = f"does it have {found.attribute}?"
        return profile.attributes.get(found.attribute, Rule(asks, unknown)), ""
    table = table_of(found, place.names)
    if table is not None:
        for each in profile.tables:
            if file_is(file, each.file) and table.name == each.name:
                return _of_table(found, profile), each.why
    return _of_classes(found, profile), ""


def _of_table(found: Found, profile: Profile) -> Rule:
    """One of the classes is asked for, each by its one capability."""
    asks = _asks(found, profile)
    pairs: list[tuple[str, str]] = []
    for name in found.classes:
        match profile.classes[name].answer:
            case AllOf(capabilities=(capability,), without=(), traits=()):
                pairs.append((name, capability))
            case _:
                return Rule(asks, Person(f"no capability alone is what {name} stands for"))
    return Rule(asks, ByClass(tuple(pairs)))


def _is_by_hand(found: Found) -> bool:
    return found.kind in _BY_HAND and not found.only_asks


def _asks(found: Found, profile: Profile) -> str:
    return "; or ".join(dict.fromkeys(profile.classes[name].asks for name in found.classes))


def _fits(override: Override, found: Found, place: Place, file: str, operand: str) -> bool:
    return (
        (override.file is None or file_is(file, override.file))
        and not _is_by_hand(found)
        and override.scope in (None, place.scope)
        and (override.classes is None or set(override.classes) == set(found.classes))
        and override.attribute == found.attribute
        and override.operand in (None, operand)
    )


def _of_classes(found: Found, profile: Profile) -> Rule:
    asks = _asks(found, profile)
    if _is_by_hand(found):
        return Rule(asks, Person(_BY_HAND[found.kind]))
    if found.kind in EXACT_KINDS:
        missing = [name for name in found.classes if name not in profile.exact]
        if missing:
            why = f"the very class {missing[0]}, without its subclasses: which facts set it apart"
            return Rule(asks, Person(why))
        exact = [profile.exact[name] for name in found.classes]
        return Rule("; or ".join(rule.asks for rule in exact), _any([r.answer for r in exact]))
    return Rule(asks, _any([profile.classes[name].answer for name in found.classes]))


def _any(answers: list[Answer]) -> Answer:
    options: list[AllOf] = []
    for answer in answers:
        match answer:
            case AllOf():
                options.append(answer)
            case AnyOf(options=more):
                options.extend(more)
            case _:
                return answer
    distinct = tuple(dict.fromkeys(options))
    return distinct[0] if len(distinct) == 1 else AnyOf(distinct)
