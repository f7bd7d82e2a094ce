"""Which pages transfers under way hold: no page is of two of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..manifests.manifest import IndexSpace
from ..planning.plan import TransferPlan
from .plan_pages import in_pages_of_plan
from .reservation import PageNumbers, Reservation
from .transfer_error import OutOfPages

__all__ = ["Destinations", "PagesTaken"]


class PagesTaken(ValueError):
    """Pages that another transfer holds. `reservation` is not freed: some are not its own."""

    def __init__(self, why: str, reservation: Reservation) -> None:
        super().__init__(why)
        self.reservation = reservation


class Destinations:
    """Claims of pages of one side, by transfer. At most `most_pages` are claimed at once."""

    def __init__(self, plans: Sequence[TransferPlan], most_pages: int | None) -> None:
        self._plans, self._most = plans, most_pages
        self._claims: dict[int, PageNumbers] = {}
        self._held: dict[IndexSpace, set[int]] = {}

    def claim(self, number: int, reservation: Reservation) -> list[PageNumbers]:
        """The pages as each plan counts them. A reservation that is refused is freed.

        :raises OutOfPages: for more than `most_pages` with those of other transfers.
        :raises ValueError: for a space without pages, a page twice, or a reserved one.
        :raises PagesTaken: for a page that another transfer holds; only this is not freed.
        """
        try:
            self._check(reservation.pages)
            lists = self._in_pages_of_plans(reservation)
        except (ValueError, OutOfPages):
            reservation.free()
            raise
        self._check_apart(reservation)
        self._claims[number] = reservation.pages
        for space, pages in reservation.pages.items():
            self._held.setdefault(space, set()).update(pages.tolist())
        return lists

    def release(self, number: int) -> None:
        """Pages of a transfer that is over."""
        for space, pages in self._claims.pop(number).items():
            self._held[space].difference_update(pages.tolist())

    def _in_pages_of_plans(self, reservation: Reservation) -> list[PageNumbers]:
        return [
            {
                space: in_pages_of_plan(
                    plan,
                    space,
                    pages,
                    reservation.tokens,
                    reservation.window_begin if space == "window" else 0,
                )
                for space, pages in reservation.pages.items()
                if space in plan.spaces
            }
            for plan in self._plans
        ]

    def _check(self, pages: PageNumbers) -> None:
        held = sum(map(len, self._held.values()))
        asked = sum(map(len, pages.values()))
        if self._most is not None and held + asked > self._most:
            raise OutOfPages(
                f"{asked} pages are needed, {held} of at most {self._most} are held for transfers"
            )
        for plan in self._plans:
            if missing := [space for space in plan.spaces if space not in pages]:
                raise ValueError(f"no pages of space {', '.join(missing)}, which travels too")
        for space, each in pages.items():
            if len(each) and int(each.min()) < 1:
                raise ValueError(f"{space}: page {int(each.min())} is reserved")
            if len(np.unique(each)) < len(each):
                raise ValueError(f"{space}: a page is a destination twice")

    def _check_apart(self, reservation: Reservation) -> None:
        for space, each in reservation.pages.items():
            if both := self._held.get(space, set()).intersection(each.tolist()):
                why = f"{space}: page {min(both)} is another transfer's already"
                raise PagesTaken(why, reservation)
