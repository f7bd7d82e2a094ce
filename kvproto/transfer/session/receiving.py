"""One transfer, at the side that gets the pages."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .arrivals import Arrivals
from .reservation import Reservation
from .staged import Staged
from .transfer_error import TransferError

__all__ = ["Receiving", "ReceivingState"]

ReceivingState: TypeAlias = Literal["waiting", "moving", "draining", "done", "failed"]
"""For staging memory, which other transfers have; while bytes are awaited; after an error, while
some may still land; ended."""


class Receiving:
    """What `Receiver.receive` returns. Its pages are seen once all of their regions are there."""

    def __init__(
        self,
        key: str,
        number: int,
        reservation: Reservation,
        deadline: float,
        arrivals: dict[int, Arrivals],
    ) -> None:
        self.key, self.number, self.deadline = key, number, deadline
        self.state: ReceivingState = "moving"
        self.error: TransferError | None = None
        self.arrivals = arrivals
        self.writers = set(arrivals)
        self.is_taken = False
        self.staged: Staged | None = None
        self._reservation = reservation

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it can land any more: its pages are the caller's, or free."""
        return self.state in ("done", "failed")

    @property
    def tokens(self) -> int:
        """Tokens that the pages are for."""
        return self._reservation.tokens

    @property
    def page_count(self) -> int:
        """Pages that are held for it, of all spaces."""
        return sum(len(each) for each in self._reservation.pages.values())

    def take(self) -> Reservation:
        """The pages, which are the caller's from now on, to free as well.

        :raises TransferError: where it failed.
        :raises RuntimeError: before every byte is there.
        """
        if self.error is not None:
            raise self.error
        if self.state != "done":
            raise RuntimeError(f"transfer {self.key} is not done: its pages may be seen by nobody")
        self.is_taken = True
        return self._reservation

    def fail(self, error: TransferError) -> None:
        """No page of it will be seen; they stay reserved while bytes may land in them."""
        if self.state in ("waiting", "moving") or (self.state == "done" and not self.is_taken):
            self.error, self.state = error, "draining"

    def settle(self) -> None:
        """Free the pages of what failed: nothing can land in them any more."""
        self._reservation.free()
        self.state = "failed"
