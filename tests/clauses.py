"""Whether what a document calls a law, or a member of a protocol, exists."""

from __future__ import annotations

from typing_extensions import get_protocol_members, is_protocol

import kvproto.protocols
from kvproto.conformance import LAWS

__all__ = ["is_clause", "is_law", "is_member"]


def is_law(name: str) -> bool:
    """An id of the registry."""
    return name in LAWS


def is_member(name: str) -> bool:
    """`Protocol`, or `Protocol.member` of a public protocol, inherited ones included."""
    protocol, dot, member = name.partition(".")
    found = vars(kvproto.protocols).get(protocol)
    if not isinstance(found, type) or not is_protocol(found):
        return False
    return not dot or member in get_protocol_members(found)


def is_clause(name: str) -> bool:
    """Either."""
    return is_law(name) or is_member(name)
