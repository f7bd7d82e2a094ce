"""`either` against what `isinstance` and `issubclass` say of a tuple."""

from __future__ import annotations

import numbers

import pytest

from kvproto.protocols import IndexerCapable, MHARows, MLALatent, either
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf


class Engines:
    """Another's pool, whose members are assigned in `__init__`."""

    def __init__(self) -> None:
        self.size = 1


class Derived(Engines):
    """A platform's, derived from it."""


CANDIDATES = [Engines, Derived, MHALeaf, MLALeaf, DSALeaf, int, object]


@pytest.mark.parametrize("capability", [MHARows, MLALatent, IndexerCapable, numbers.Number])
@pytest.mark.parametrize("candidate", CANDIDATES)
def test_it_answers_as_a_tuple(candidate: type, capability: type) -> None:
    both = either(Engines, capability)
    assert issubclass(candidate, both) == issubclass(candidate, (Engines, capability))


def test_a_pool_that_is_either() -> None:
    heads = either(Engines, MHARows)
    assert [issubclass(each, heads) for each in CANDIDATES] == [True, True, True] + [False] * 4
    assert isinstance(Derived(), heads)
    assert not isinstance(object(), heads)
    assert heads.__name__ == "Engines or MHARows"


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(TypeError, match="takes classes"):
        either()
    with pytest.raises(TypeError, match="takes classes"):
        either(Engines, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
