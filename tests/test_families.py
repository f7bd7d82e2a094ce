"""The page of families says nothing of ours that is not there."""

from __future__ import annotations

import re
from collections import Counter
from pkgutil import resolve_name
from typing import Any

import pytest
from typing_extensions import is_protocol

import kvproto.protocols
import kvproto.reference
from tests.families import STATUSES, Row, rows

SERVED = {
    protocol
    for protocol in vars(kvproto.protocols).values()
    if isinstance(protocol, type)
    and is_protocol(protocol)
    and any(
        issubclass(ours, protocol)
        for ours in vars(kvproto.reference).values()
        if isinstance(ours, type)
    )
}
"""The capabilities that a class of the reference has."""


def test_the_capabilities_of_the_reference_were_found() -> None:
    assert {kvproto.protocols.KVLeaf, kvproto.protocols.ShardedAllocator} <= SERVED


def test_each_class_has_one_row() -> None:
    assert [name for name, times in Counter(row.name for row in rows()).items() if times > 1] == []


def named(row: Row) -> list[Any]:
    """What the row names of ours, by way of `from module import name`."""
    return [resolve_name(":".join(name.rsplit(".", 1))) for name in row.ours]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_what_a_row_names_exists(row: Row) -> None:
    assert row.status in STATUSES
    assert row.said
    assert all(isinstance(thing, type) for thing in named(row))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_names_what_its_status_needs(row: Row) -> None:
    contracts = [is_protocol(thing) for thing in named(row)]
    if row.status in ("implemented", "covered"):
        assert contracts, "implemented by nothing"
        assert all(contracts) == ("contract" in row.said), "a contract is no implementation"
        return
    # What a later class lacks is said in words where something of ours has its capability already.
    served = [thing for thing in named(row) if not is_protocol(thing) or SERVED & {thing}]
    without_names = re.sub(r"`[^`]*`", "", row.said)
    assert not served or re.search(r"[a-z]{3,}", without_names), f"{served} is there"
