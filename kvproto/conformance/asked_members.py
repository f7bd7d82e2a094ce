"""What the kit's protocols ask for, read from their declarations once: no law adds to them."""

from __future__ import annotations

from functools import cache

from kvproto.protocols._members import Member, members_of

__all__ = ["members", "methods"]


@cache
def members(protocol: type) -> tuple[Member, ...]:
    """Those of one of kvproto's own protocols: the memo holds it, and never looks again."""
    return members_of(protocol)


@cache
def methods(protocol: type) -> tuple[str, ...]:
    """The names of its methods, in alphabetical order."""
    return tuple(member.name for member in members(protocol) if member.kind == "method")
