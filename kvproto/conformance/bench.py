"""What every law has at hand: a fresh subject, the request it was built for, and comparisons."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Self

from torch import Tensor

from kvproto.protocols import supports

from .broken import LawBroken
from .fallback import Fallback
from .place import on_host
from .row_access import RowAccess

__all__ = ["Bench", "show_row"]


class Bench:
    """One fresh `pool`, built for `request`, which a single law may use up.

    `random` is seeded with `seed`, which `kvproto repro --seed` repeats. `fallback` is told
    when the pool is not looked at as independently as the kit would like. `another` builds
    a further subject for the same request, `build` one for any other, or `Declined`. What a law
    puts into `note` is reported beside a pass.
    """

    another: Callable[[], Any]
    build: Callable[[Any], Any]
    note: str = ""

    def __init__(self, request: Any, pool: Any, seed: int = 0) -> None:
        self.request = request
        self.pool = pool
        self.seed = seed
        self.random = random.Random(seed)
        self.fallback = Fallback()
        self._beside: list[Bench] = []

    @classmethod
    def suits(cls, pool: object) -> bool:
        """Can the bench look at this subject? Where it cannot, only laws of any subject bind."""
        return True

    def look_through(self, row_access: RowAccess) -> None:
        """For benches that read rows: what the vendor offers to read them with."""

    def sibling(self, pool: Any, request: Any = None) -> Self:
        """A bench like this one with another subject on it, built for the same request or another.

        It looks at the subject as this one does, and builds as this one does.
        """
        beside = type(self)(self.request if request is None else request, pool, self.seed)
        beside.another, beside.build = self.another, self.build
        self.looks_through(beside)
        return beside

    def looks_through(self, other: Bench) -> None:
        """What that bench falls back on, this one does."""
        self._beside.append(other)

    def offers(self, capabilities: Sequence[type], law_id: str) -> bool:
        """Has the subject what a law about these capabilities looks at?"""
        return all(supports(self.pool, capability) for capability in capabilities)

    def prepare(self) -> None:
        """What the pool's surroundings do to it before it is used; once, before the law."""

    @property
    def in_host_memory(self) -> bool:
        """Is the subject in memory of this process, and on no device?"""
        return on_host(self.request)

    @property
    def by_fallback(self) -> bool:
        """Whether anything read so far was less independent of the pool than the kit can be."""
        return self.fallback.used or any(other.by_fallback for other in self._beside)

    def expect(self, call: str, *, expected: object, got: object) -> None:
        """:raises LawBroken: when the two values differ."""
        if got != expected:
            raise LawBroken(call, expected=str(expected), got=str(got))

    def expect_same(self, call: str, got: Tensor, expected: Tensor, what: str) -> None:
        """:raises LawBroken: at the first row in which the two differ; NaN equals NaN."""
        if got.shape != expected.shape:
            shapes = tuple(expected.shape), tuple(got.shape)
            raise LawBroken(call, expected=f"shape {shapes[0]}", got=f"shape {shapes[1]}")
        same = (got == expected) | (got.isnan() & expected.isnan())
        wrong = (~same.flatten(1).all(1)).nonzero().flatten()
        if len(wrong):
            row = int(wrong[0])
            others = f" ({len(wrong)} rows differ)" if len(wrong) > 1 else ""
            raise LawBroken(
                call,
                expected=f"{what} {row} = {show_row(expected[row])}",
                got=show_row(got[row]) + others,
            )

    def expect_raises(
        self, call: str, action: Callable[[], object], *errors: type[Exception]
    ) -> None:
        """The action raises one of these.

        :raises LawBroken: when it returns, or raises something else.
        """
        names = " or ".join(e.__name__ for e in errors)
        try:
            action()
        except errors:
            return
        except Exception as other:  # whatever else comes out is the finding
            raise LawBroken(call, expected=names, got=f"{type(other).__name__}: {other}") from other
        raise LawBroken(call, expected=names, got="no exception")


def show_row(row: Tensor, most: int = 6) -> str:
    """A row's first elements, short enough for a line of a report."""
    shown = ", ".join(f"{float(x):g}" for x in row.flatten()[:most])
    return f"[{shown}{', ...' if row.numel() > most else ''}]"
