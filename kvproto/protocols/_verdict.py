"""Does a class provide a protocol's members? Decided from declarations, nothing is run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from ._members import Member, declared_annotations, is_protocol, members_of
from ._signature import is_called_synchronously, mismatches, without_self

__all__ = ["Verdict", "attributes_of", "decide"]

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a class answers for one protocol.

    `faults` holds one line per member the class provides wrongly or not at all.
    `pending` and `pending_nullable` name the data members it does not declare: the instance's
    `__dict__` decides those, and only there may a nullable one be None. Holds no class alive.
    """

    faults: tuple[str, ...]
    pending: tuple[str, ...]
    pending_nullable: tuple[str, ...]

    def on_class(self) -> bool | None:
        """True or False where declarations settle the answer, None where an instance must."""
        if self.faults:
            return False
        return None if self.pending or self.pending_nullable else True

    def missing_from(self, attributes: Mapping[str, object]) -> list[str]:
        """The pending data members that an instance's own attributes do not provide."""
        missing = [name for name in self.pending if attributes.get(name) is None]
        return missing + [name for name in self.pending_nullable if name not in attributes]

    def holds_for(self, instance: object) -> bool:
        """Does this instance provide the pending data members?"""
        try:
            attributes = instance.__dict__
        except AttributeError:
            return False
        for name in self.pending:
            if attributes.get(name) is None:
                return False
        for name in self.pending_nullable:  # noqa: SIM110  # spared: a generator on every check
            if name not in attributes:
                return False
        return True


def attributes_of(instance: object) -> Mapping[str, object]:
    """What was assigned to this very object; empty where its class keeps no `__dict__`."""
    try:
        # Not `vars`, which would ask the object; the checkers know no type for what this gives.
        return object.__getattribute__(instance, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return {}


def decide(cls: type, protocol: type, assigned: Mapping[str, object] | None = None) -> Verdict:
    """Compare a class with a protocol, member by member.

    `assigned` stands in for the attributes that every instance of the class assigns (see
    `adopt`). A stub inherited from a protocol is no implementation; a member set to None is
    declared as not supported. Properties and other descriptors are looked at, never run.
    """
    faults: list[str] = []
    pending: list[Member] = []
    for member in members_of(protocol):
        if member.kind == "method":
            faults += [f"{member.name}: {why}" for why in _method_faults(cls, member)]
        else:
            why = _data_fault(cls, member)
            if why is _ABSENT:
                pending.append(member)
            elif why is not None:
                faults.append(f"{member.name}: {why}")
    verdict = Verdict(
        tuple(faults),
        tuple(m.name for m in pending if not m.nullable),
        tuple(m.name for m in pending if m.nullable),
    )
    return verdict if assigned is None else _settled(verdict, assigned)


def _settled(verdict: Verdict, assigned: Mapping[str, object]) -> Verdict:
    missing = verdict.missing_from(assigned)
    lines = tuple(f"{name}: not assigned by the adopted instance" for name in missing)
    return Verdict(verdict.faults + lines, (), ())


def _lookup(cls: type, name: str) -> object:
    for owner in cls.__mro__:
        if not is_protocol(owner) and name in owner.__dict__:
            return owner.__dict__[name]
    return _ABSENT


def _method_faults(cls: type, member: Member) -> list[str]:
    value = _lookup(cls, member.name)
    if value is _ABSENT:
        return [_why_missing(cls, member.name)]
    if value is None:
        return ["set to None, declared as not supported"]
    kind = type(value).__name__
    if isinstance(value, (staticmethod, classmethod)):
        return [f"is a {kind}, the protocol wants a method of the instance"]
    if not callable(value) and not isinstance(value, functools.partialmethod):
        return [f"is a {kind}, the protocol wants a method"]
    return _call_faults(_lookup(cls, member.name), member)


def _call_faults(method: object, member: Member) -> list[str]:
    if not is_called_synchronously(method):
        return ["is async or a generator, callers call it and expect the work done"]
    found = without_self(method)
    if found is None or member.signature is None:
        return []
    return mismatches(member.signature, found)


def _why_missing(cls: type, name: str) -> str:
    if any(is_protocol(owner) and name in owner.__dict__ for owner in cls.__mro__):
        return "inherited from the protocol, whose body is a stub; not implemented"
    if _lookup(cls, "__getattr__") is not _ABSENT:
        return "missing (what __getattr__ forwards is not declared and does not count)"
    return "missing"


def _data_fault(cls: type, member: Member) -> str | object | None:
    """None when declared, a reason when declared as something else, _ABSENT when not declared."""
    value = _lookup(cls, member.name)
    if value is None:
        return None if member.nullable else _ABSENT
    if value is _ABSENT:
        return None if _is_annotated(cls, member.name) else _ABSENT
    if isinstance(value, (staticmethod, classmethod)) or inspect.isroutine(value):
        return "is a method, the protocol wants a data member (attribute or property)"
    return None


def _is_annotated(cls: type, name: str) -> bool:
    return any(
        name in declared_annotations(owner) for owner in cls.__mro__ if not is_protocol(owner)
    )
