"""A law: one clause of a protocol's contract as one small function, under a stable id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvproto._bad_input import BadInput
from kvproto.protocols import LeafRequest

if TYPE_CHECKING:
    from .bench import Bench

__all__ = ["LAWS", "Law", "any_request", "has_layers", "law", "laws_named"]


@dataclass(frozen=True, slots=True)
class Law:
    """`run` takes a fresh pool on a bench and returns, or raises `LawBroken` (`broken.py`).

    The law binds every pool that has all `capabilities`, for the requests `applies` accepts.
    `claim` says what holds, `check` where to look when it does not, `since` the version of the
    kit that brought it. Where a law named in `needs` failed, this one would fail for the same
    cause: it is then reported as blocked.
    """

    id: str
    capabilities: tuple[type, ...]
    claim: str
    check: str
    since: str
    applies: Callable[[LeafRequest], bool]
    needs: tuple[str, ...]
    run: Callable[[Bench], None]


LAWS: dict[str, Law] = {}
"""Every law by id, in the order of their modules and lines."""


def any_request(_request: LeafRequest, /) -> bool:
    """For laws that bind whatever was asked for."""
    return True


def has_layers(request: LeafRequest, /) -> bool:
    """For laws that need a layer to write to."""
    return request.layer_num > 0


def law(
    law_id: str,
    *capabilities: type,
    check: str,
    since: str = "1.0",
    applies: Callable[[LeafRequest], bool] = any_request,
    needs: tuple[str, ...] = (),
) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Register a function as a law; its docstring's first line is the claim.

    :raises ValueError: for an id that is taken or a function that claims nothing.
    """

    def register(run: Callable[[Bench], None]) -> Callable[[Bench], None]:
        claim = (run.__doc__ or "").strip().split("\n", 1)[0]
        if not claim or law_id in LAWS:
            raise ValueError(f"law {law_id}: {'id is taken' if claim else 'has no docstring'}")
        LAWS[law_id] = Law(law_id, capabilities, claim, check, since, applies, needs, run)
        return run

    return register


def laws_named(ids: list[str]) -> list[Law]:
    """The laws of these ids; a family (`leaf`) stands for all its laws.

    :raises BadInput: for an id that is no law and no family, naming what there is.
    """
    chosen: dict[str, Law] = {}
    for wanted in ids:
        found = {k: v for k, v in LAWS.items() if wanted in (k, k.split(".", 1)[0])}
        if not found:
            families = sorted({k.split(".", 1)[0] for k in LAWS})
            raise BadInput(
                f"no law or family '{wanted}'; families: {', '.join(families)}; "
                "`kvproto laws` lists every law"
            )
        chosen |= found
    return list(chosen.values())
