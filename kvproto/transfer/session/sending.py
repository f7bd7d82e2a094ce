"""One transfer, at the side that has the pages."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

from ..engines.engine import Write
from ..manifests.manifest import IndexSpace, PoolName
from ..planning.page_lists import PageArrays
from ..planning.plan import TransferPlan
from .messages import Wanted
from .parts import Cut
from .readiness import Readiness
from .reservation import PageNumbers
from .transfer_error import TransferError

__all__ = ["Sending", "SendingState"]

SendingState: TypeAlias = Literal["waiting", "moving", "draining", "done", "failed"]
"""For the receiver; while bytes move; after an error, while some still do; ended."""


class Sending:
    """What `Sender.send` returns. Its pages must stay as they are until it `is_settled`."""

    def __init__(self, key: str, peer: str, deadline: float, readiness: Readiness) -> None:
        self.key, self.peer, self.deadline = key, peer, deadline
        self.state: SendingState = "waiting"
        self.error: TransferError | None = None
        self.wanted: Wanted | None = None
        self.own: PageNumbers = {}
        self.pages: PageArrays = {}
        self.staged: TransferPlan | None = None
        self.readiness = readiness
        self.todo: deque[Cut] = deque()
        self.writes: list[tuple[Write, int]] = []

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is, or will be, on its way."""
        return self.state in ("done", "failed")

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of writes that the engine has not finished."""
        return sum(nbytes for _, nbytes in self.writes)

    @property
    def counts(self) -> dict[IndexSpace, int]:
        """Pages by space, in pages of the plan."""
        return {space: len(own) for space, (own, _) in self.pages.items()}

    def ready(self, *layer_ids: int, pool: PoolName = "target") -> None:
        """These layers, by global id, are computed: they may go while the next ones are.

        A layer goes once: to name it again changes nothing.

        :raises ValueError: for a layer that does not travel.
        """
        self.readiness.mark(layer_ids, pool)

    def cancel(self, reason: str = "cancelled by the sender") -> None:
        """Send nothing more of it. The receiver is told once what is on its way has landed."""
        if self.state in ("waiting", "moving"):
            self.error = TransferError(reason, peer=self.peer, phase=self.state, key=self.key)
            self.state = "draining"
            self.todo.clear()
