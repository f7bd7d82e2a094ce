"""Pages from peers: the side that has room for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..manifests.manifest import IndexSpace
from .arrivals import Arrivals, UnexpectedPart
from .coverage import check_coverage
from .destinations import Destinations
from .link import Link
from .messages import (
    Cancelled,
    Declined,
    Message,
    MessageError,
    Settled,
    Wanted,
    decode_part,
)
from .polling import until
from .receiving import Receiving
from .reservation import PageNumbers, Reservation
from .transfer_error import Phase, TransferError

__all__ = ["Receiver"]


class Receiver:
    """Receives pages over links, in its caller's thread: nothing happens but in its calls.

    `poll` is to be called while a transfer is under way. Each link is to a sender of some layers,
    or heads, of every transfer, as pipeline and tensor parallel ranks are; together they have all
    of this side's. At most `most_pages` are held for transfers at once. Where a peer goes, what
    it has sent may still land: pages are held for `linger` seconds more.

    :raises ValueError: where the links leave out a layer or a head of this side's pools.
    """

    def __init__(
        self, links: Sequence[Link], *, most_pages: int | None = None, linger: float = 1.0
    ) -> None:
        check_coverage([link.plan for link in links])
        self.links = tuple(links)
        self._linger = linger
        self._destinations = Destinations([link.plan for link in links], most_pages)
        self._live: dict[int, Receiving] = {}
        self._numbers = 0
        self._ended: dict[int, float] = {}
        self._gone: set[int] = set()

    @property
    def pages_held(self) -> int:
        """Pages that are reserved and not seen, those of failed transfers included."""
        return sum(each.page_count for each in self._live.values())

    @property
    def dropped(self) -> int:
        """Notifications of no transfer under way, or of parts that came before."""
        return sum(link.dropped for link in self.links)

    def receive(
        self, key: str, reserve: Callable[[], Reservation], *, timeout: float = 60.0
    ) -> Receiving:
        """Reserve pages, and ask every peer to write those of `key` there.

        :raises OutOfPages: from `reserve`, or where more than `most_pages` would be held.
        :raises ValueError: for a key that is under way, or pages that cannot be written: a space
            that travels and has none, a page twice, one of another transfer, a reserved one.
        :raises TransferError: where a peer is gone.
        """
        if any(each.key == key for each in self._live.values()):
            raise ValueError(f"transfer {key} is under way already")
        for at, link in enumerate(self.links):
            if link.exchange.ended is not None:
                raise self._error(at, "reserving", key, link.exchange.ended)
        reservation = reserve()
        self._numbers += 1
        lists = self._destinations.claim(self._numbers, reservation)
        arrivals = {
            at: Arrivals(link.steps, {space: len(each) for space, each in pages.items()})
            for at, (link, pages) in enumerate(zip(self.links, lists, strict=True))
        }
        made = Receiving(key, self._numbers, reservation, time.monotonic() + timeout, arrivals)
        self._live[made.number] = made
        for link, pages in zip(self.links, lists, strict=True):
            link.exchange.send(Wanted(made.number, key, reservation.tokens, _as_tuples(pages)))
        return made

    def decline(self, key: str, reason: str) -> None:
        """Tell the peers that pages of `key` will not be wanted, for example for lack of room."""
        for link in self.links:
            link.exchange.send(Declined(key, reason))

    def cancel(self, receiving: Receiving, reason: str = "cancelled by the receiver") -> None:
        """Want it no longer. Its pages are free once every peer has said that none moves."""
        self._fail(receiving, 0, reason)

    def poll(self) -> None:
        """Hear the peers and the engine, and see what is complete, late or free; waits for none."""
        now = time.monotonic()
        for at, link in enumerate(self.links):
            self._hear(at, link, now)
        for each in list(self._live.values()):
            if now > each.deadline:
                self._fail(each, min(each.writers, default=0), "not done in time")
            self._advance(each)

    def wait(self, receiving: Receiving) -> Reservation:
        """Poll until it is done, and take its pages.

        :raises TransferError: where it failed; its pages may not be free yet.
        """
        until(self.poll, lambda: receiving.state != "moving")
        return receiving.take()

    def close(self) -> None:
        """Cancel what is under way, wait up to `linger` until none moves, and end the links.

        Pages of peers that have not answered stay reserved: bytes may land in them.
        """
        for each in list(self._live.values()):
            self.cancel(each, "closed by the receiver")
        end = time.monotonic() + 2 * self._linger
        until(self.poll, lambda: not self._live or time.monotonic() > end)
        for link in self.links:
            link.close()

    def _hear(self, at: int, link: Link, now: float) -> None:
        for message in link.exchange.receive():
            self._message(at, link, message)
        if at in self._gone:
            return
        for notification in link.engine.notifications(link.peer):
            self._notified(at, link, notification)
        if link.exchange.ended is not None:
            since = self._ended.setdefault(at, now)
            if now >= since + self._linger:
                self._lose(at, link)

    def _lose(self, at: int, link: Link) -> None:
        """A peer that is gone, and with it what it had sent."""
        self._gone.add(at)
        link.engine.disconnect(link.peer)
        for each in self._live.values():
            if at in each.writers:
                self._fail(each, at, link.exchange.ended or "")
                each.writers.discard(at)

    def _message(self, at: int, link: Link, message: Message) -> None:
        match message:
            case Settled():
                self._settled(at, message)
            case _:
                link.exchange.ended = f"a {type(message).__name__} came, out of place"

    def _settled(self, at: int, message: Settled) -> None:
        each = self._live.get(message.transfer)
        if each is None or at not in each.writers:
            return
        if message.reason or not each.arrivals[at].is_complete:
            self._fail(each, at, message.reason or "the peer sent less than was wanted")
        each.writers.discard(at)

    def _notified(self, at: int, link: Link, notification: bytes) -> None:
        try:
            part = decode_part(notification)
        except MessageError as error:
            link.exchange.ended = str(error)
            return
        each = self._live.get(part.transfer)
        if part.session != link.session or each is None or each.state != "moving":
            link.dropped += 1
            return
        try:
            is_new = each.arrivals[at].add(part)
        except UnexpectedPart as error:
            self._fail(each, at, str(error))
            return
        link.dropped += not is_new
        if each.arrivals[at].is_complete:
            each.writers.discard(at)

    def _fail(self, each: Receiving, at: int, reason: str) -> None:
        if each.state != "moving":
            return
        each.fail(self._error(at, "moving", each.key, reason))
        for writer in each.writers:
            self.links[writer].exchange.send(Cancelled(each.number, reason))

    def _error(self, at: int, phase: Phase, key: str, reason: str) -> TransferError:
        return TransferError(reason, peer=self.links[at].owner, phase=phase, key=key)

    def _advance(self, each: Receiving) -> None:
        if each.writers:
            return
        if each.state == "draining":
            each.settle()
        else:
            each.state = "done"
        self._destinations.release(each.number)
        del self._live[each.number]


def _as_tuples(pages: PageNumbers) -> dict[IndexSpace, tuple[int, ...]]:
    return {space: tuple(each.tolist()) for space, each in pages.items()}
