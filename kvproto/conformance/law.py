"""A law: one clause of a protocol's contract as one small function, under a stable id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from kvproto._bad_input import BadInput
from kvproto.protocols import KVLeaf, KVPool, SlotAllocator

from .bench import Bench

__all__ = ["LAWS", "Law", "Level", "any_request", "has_layers", "law", "laws_named"]

Level = Literal["core", "extended"]

_CORE = {KVPool, KVLeaf, SlotAllocator}


@dataclass(frozen=True, slots=True)
class Law:
    """`run` takes a fresh subject on a bench and returns, or raises `LawBroken` (`broken.py`), or
    `NotAsked` (`not_asked.py`) where it comes to nothing that it could ask.

    The law binds every subject on a bench of class `bench` that has all `capabilities`, for the
    requests `applies` accepts. `claim` says what holds, `check` where to look when it does not,
    `since` the version of the kit that brought it. Where a law named in `needs` failed, or was
    blocked itself, this one would fail for the same cause: it is then reported as blocked. A
    `hazardous` law makes calls that a wrong kernel answers by writing outside its buffers: it runs
    in a child process. `host_only` says why a law is asked of host memory alone, where it is.
    `when` looks at the bench, for laws about what the vendor offers to the kit beside the pool.
    """

    id: str
    capabilities: tuple[type, ...]
    claim: str
    check: str
    since: str
    applies: Callable[[Any], bool]
    needs: tuple[str, ...]
    hazardous: bool
    host_only: str
    bench: type[Bench]
    run: Callable[[Any], None]
    when: Callable[[Any], bool]

    @property
    def family(self) -> str:
        """The part of the id before the dot."""
        return self.id.split(".", 1)[0]

    @property
    def level(self) -> Level:
        """Core laws bind every pool or allocator; extended ones those with a further capability."""
        return "core" if set(self.capabilities) <= _CORE else "extended"

    @property
    def version(self) -> tuple[int, ...]:
        """`since` as numbers, to compare with the version a vendor pins."""
        return tuple(int(part) for part in self.since.split("."))


LAWS: dict[str, Law] = {}
"""Every law by id, in the order of their modules and lines."""


def any_request(_request: object, /) -> bool:
    """For laws that bind whatever was asked for."""
    return True


def has_layers(request: Any, /) -> bool:
    """For laws that need a layer to write to."""
    return bool(request.layer_num > 0)


def law(
    law_id: str,
    *capabilities: type,
    check: str,
    since: str = "1.0",
    applies: Callable[[Any], bool] = any_request,
    needs: tuple[str, ...] = (),
    hazardous: bool = False,
    host_only: str = "",
    when: Callable[[Any], bool] = any_request,
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function as a law; its docstring's first line is the claim.

    The annotation of its parameter is the bench it runs on.

    :raises ValueError: for an id that is taken or a function that claims nothing.
    """

    def register(run: Callable[[Any], None]) -> Callable[[Any], None]:
        claim = (run.__doc__ or "").strip().split("\n", 1)[0]
        if not claim or law_id in LAWS:
            raise ValueError(f"law {law_id}: {'id is taken' if claim else 'has no docstring'}")
        bench = next(iter(get_type_hints(run).values()))
        LAWS[law_id] = Law(
            id=law_id,
            capabilities=capabilities,
            claim=claim,
            check=check,
            since=since,
            applies=applies,
            needs=needs,
            hazardous=hazardous,
            host_only=host_only,
            bench=bench,
            run=run,
            when=when,
        )
        return run

    return register


def laws_named(ids: list[str]) -> list[Law]:
    """The laws of these ids; a family (`leaf`) stands for all its laws.

    :raises BadInput: for an id that is no law and no family, naming what there is.
    """
    chosen: dict[str, Law] = {}
    for wanted in ids:
        found = {k: v for k, v in LAWS.items() if wanted in (k, v.family)}
        if not found:
            families = sorted({v.family for v in LAWS.values()})
            raise BadInput(
                f"no law or family '{wanted}'; families: {', '.join(families)}; "
                "`kvproto laws` lists every law"
            )
        chosen |= found
    return list(chosen.values())
