"""The check inside torch.compile(fullgraph=True): the same answer as outside, for every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.protocols import SWACapable, adopt, forget, require, supports

SWA: Any = SWACapable
"""For `issubclass`, which checkers refuse for protocols with data."""


class Doors:
    def register_mapping(self, table: Any) -> None: ...
    def translate_loc_from_full_to_swa(self, kv_indices: Any) -> Any: ...


class Declared(Doors):
    full_to_swa_index_mapping = None


class Legacy(Doors):
    def __init__(self, *, swa: bool) -> None:
        if swa:
            self.full_to_swa_index_mapping = None


class Other:
    pass


def by_class(pool: object, x: Tensor) -> Tensor:
    return x + 1 if isinstance(pool, SWACapable) else x


def by_tuple(pool: object, x: Tensor) -> Tensor:
    return x + 1 if isinstance(pool, (int, SWACapable)) else x


def by_union(pool: object, x: Tensor) -> Tensor:
    return x + 1 if isinstance(pool, SWACapable | int) else x


def by_supports(pool: object, x: Tensor) -> Tensor:
    return x + 1 if supports(pool, SWACapable) else x


def by_issubclass(pool: object, x: Tensor) -> Tensor:
    return x + 1 if issubclass(type(pool), SWA) else x


FORMS = (by_class, by_tuple, by_union, by_supports, by_issubclass)


@pytest.mark.parametrize("form", FORMS)
def test_compiled_and_eager_agree(form: Callable[[object, Tensor], Tensor]) -> None:
    compiled = torch.compile(form, fullgraph=True, backend="eager")
    x = torch.zeros(1)
    with_swa, without = Legacy(swa=True), Legacy(swa=False)
    for pool in (Declared(), Other(), with_swa, without, with_swa, without, Declared()):
        assert torch.equal(compiled(pool, x), form(pool, x)), type(pool)


@pytest.mark.parametrize("form", FORMS)
def test_the_first_instance_does_not_decide_for_the_next(
    form: Callable[[object, Tensor], Tensor],
) -> None:
    torch.compiler.reset()
    compiled = torch.compile(form, fullgraph=True, backend="eager")
    x = torch.zeros(1)
    for pool in (Legacy(swa=False), Legacy(swa=True)):
        assert torch.equal(compiled(pool, x), form(pool, x))


def test_require_inside_a_graph() -> None:
    def bound(pool: object, x: Tensor) -> Tensor:
        require(pool, SWACapable, for_="a compiled layer")
        return x + 1

    compiled = torch.compile(bound, fullgraph=True, backend="eager")
    assert compiled(Declared(), torch.zeros(1)).item() == 1


def test_an_object_made_inside_the_graph_needs_a_declared_class() -> None:
    def inside(x: Tensor) -> Tensor:
        pool: Any = Legacy(swa=True)
        return x + 1 if isinstance(pool, SWACapable) else x

    torch.compiler.reset()
    compiled = torch.compile(inside, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"call kvproto\.adopt\(pool\) before compiling"):
        compiled(torch.zeros(1))
    adopt(Legacy(swa=True))
    torch.compiler.reset()
    assert torch.compile(inside, fullgraph=True, backend="eager")(torch.zeros(1)).item() == 1
    forget(Legacy)
