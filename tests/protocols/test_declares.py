"""Asking for declared values: any of those wanted, in every field, and mistakes are told."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, get_type_hints

import pytest

from kvproto.protocols import TRAIT_DOMAINS, PoolTraits, WantedTraits, declares, traits_have


class Declared:
    def __init__(self, **traits: Any) -> None:
        self.pool_traits = PoolTraits(**traits)


MLA = Declared(kind="mla", layout="latent_rows", replication="tp_replicated")


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ({"kind": "mla"}, True),
        ({"kind": "mha"}, False),
        ({"kind": ("mha", "mla")}, True),
        ({"kind": ("mha", "dsa")}, False),
        ({"kind": "mla", "layout": "latent_rows"}, True),
        ({"kind": "mla", "layout": "nhd"}, False),
        ({"id_space": "physical"}, True),
    ],
)
def test_values(wanted: Any, answer: bool) -> None:
    assert declares(MLA, **wanted) is answer
    assert traits_have(MLA.pool_traits, **wanted) is answer


@pytest.mark.parametrize("pool", [None, 3, object(), PoolTraits, type])
def test_what_declares_nothing(pool: object) -> None:
    assert declares(pool, kind="mla") is False


@pytest.mark.parametrize(
    ("wanted", "error", "line"),
    [
        ({}, ValueError, "no field of PoolTraits is named"),
        ({"colour": "red"}, TypeError, "PoolTraits has no field 'colour'"),
        ({"kind": "red"}, ValueError, "PoolTraits.kind='red': must be one of mha, mla"),
        ({"kind": ("mla", "red")}, ValueError, "PoolTraits.kind='red'"),
        ({"layout": "nhd", "kind": "red"}, ValueError, "PoolTraits.kind='red'"),
    ],
)
def test_mistakes(wanted: Any, error: type[Exception], line: str) -> None:
    with pytest.raises(error, match=line):
        declares(MLA, **wanted)


def test_every_field_can_be_asked_for_with_its_own_values() -> None:
    wanted = get_type_hints(WantedTraits)
    fields: dict[str, Any] = get_type_hints(PoolTraits)
    assert list(wanted) == list(TRAIT_DOMAINS)
    for name, hint in wanted.items():
        value = fields[name]
        assert hint == value | GenericAlias(tuple, (value, ...)), name
