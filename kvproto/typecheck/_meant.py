"""Which protocols a class is held against."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Sequence

from typing_extensions import get_protocol_members, is_protocol

from kvproto import protocols
from kvproto._bad_input import BadInput

__all__ = ["known_protocols", "meant_protocols", "named_protocols"]


def known_protocols() -> dict[str, type]:
    """The public protocols by name, in alphabetical order."""
    return {
        name: value
        for name, value in sorted(vars(protocols).items())
        if isinstance(value, type) and is_protocol(value) and value is not protocols.Capability
    }


def named_protocols(names: Sequence[str]) -> list[type]:
    """The protocols of these names, each once.

    :raises BadInput: for an unknown name, listing the known ones.
    """
    known = known_protocols()
    for name in names:
        if name not in known:
            raise BadInput(f"no protocol is named {name!r}; there are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def meant_protocols(cls: type) -> list[type]:
    """The protocols a class seems to be written for, for an author who named none.

    It subclasses the protocol, or gives every member by name, or gives at least half of them and
    among these one that no protocol taken before accounts for: so a forgotten member is told,
    and `page_size` alone means nothing. A protocol of which a method is set to None is declared
    as not supported. A protocol comes before those that extend it.

    :raises BadInput: when there is none.
    """
    given = _names_given(cls)
    known = [p for p in known_protocols().values() if p in cls.__mro__ or _may_mean(p, cls, given)]
    meant: list[type] = []
    accounted: set[str] = set()
    for protocol in sorted(known, key=lambda p: _rank(p, cls, given)):
        members = get_protocol_members(protocol)
        whole = protocol in cls.__mro__ or members <= given
        if whole or members & given - accounted:
            meant.append(protocol)
            accounted |= members & given
    if not meant:
        raise BadInput(
            f"{cls.__name__} has less than half the members of every protocol; "
            "name the one it should satisfy with --protocol"
        )
    return sorted(meant, key=lambda p: (len(p.__mro__), p.__name__))


def _rank(protocol: type, cls: type, given: set[str]) -> tuple[bool, int]:
    """Whole ones first, then those that account for most."""
    members = get_protocol_members(protocol)
    return not (protocol in cls.__mro__ or members <= given), -len(members & given)


def _may_mean(protocol: type, cls: type, given: set[str]) -> bool:
    members = get_protocol_members(protocol)
    if any(_is_refused(protocol, cls, name) for name in members):
        return False
    bases = [base for base in protocol.__mro__[1:] if is_protocol(base)]
    own = members.difference(*(get_protocol_members(base) for base in bases))
    if not own:
        return not _faulty(protocol, cls) & set(protocol.__dict__)
    return all(2 * len(given & group) >= len(group) for group in (members, own))


def _faulty(protocol: type, cls: type) -> set[str]:
    """Members that do not fit: what tells protocols apart that only ask more of a known name."""
    return {line.partition(":")[0] for line in protocols.explain(cls, protocol)}


def _is_refused(protocol: type, cls: type, name: str) -> bool:
    wanted = inspect.getattr_static(protocol, name, None)
    return inspect.isroutine(wanted) and inspect.getattr_static(cls, name, wanted) is None


def _names_given(cls: type) -> set[str]:
    """What the class declares, and the attributes its methods assign (usually in `__init__`)."""
    names: set[str] = set()
    for owner in cls.__mro__:
        if owner is object or is_protocol(owner):
            continue
        names.update(owner.__dict__, inspect.get_annotations(owner))
        for value in owner.__dict__.values():
            if inspect.isfunction(value):
                code = dis.get_instructions(value)
                names.update(i.argval for i in code if i.opname == "STORE_ATTR")
    return names
