"""Pages from peers: the side that has room for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..engines.engine import EngineError
from ..manifests.manifest import IndexSpace
from .arrivals import Arrivals, UnexpectedPart
from .coverage import check_coverage
from .departure import Departure
from .destinations import Destinations
from .link import Link
from .messages import (
    Cancelled,
    Declined,
    Finished,
    Message,
    MessageError,
    Refused,
    Settled,
    Wanted,
    decode_part,
)
from .polling import until
from .receiving import Receiving
from .reservation import PageNumbers, Reservation
from .staged import Staged
from .staging_memory import StagingOptions, staging_memory
from .transfer_error import OutOfStaging, Phase, TransferError

__all__ = ["Receiver"]


class Receiver:
    """Receives pages over links, in its caller's thread: nothing happens but in its calls.

    `poll` is to be called while a transfer is under way. Each link is to a sender of some layers,
    or heads, of every transfer, as pipeline and tensor parallel ranks are; together they have all
    of this side's. At most `most_pages` are held for transfers at once.

    Where a plan converts, pages arrive in memory that `staging` bounds, needed then alone, and are
    converted by `poll` before they are seen. A transfer for which other ones leave no room waits.

    A connection that is lost fails transfers, but pages stay reserved while the peer may write: its
    process may be there still. They are free `linger` seconds after it has closed its sender, or is
    known to have ended: by its process, on this machine, or by `reclaim`.

    :raises ValueError: where the links leave out a layer or a head of this side's pools, or one of
        them has a receiver already, or was opened as a sender's; where a plan converts and there
        are no `staging` options, no room for one page, or no `open_bytes` for the device.
    :raises EngineError: for staging memory that an engine cannot register.
    """

    def __init__(
        self,
        links: Sequence[Link],
        *,
        most_pages: int | None = None,
        staging: StagingOptions | None = None,
        linger: float = 1.0,
    ) -> None:
        check_coverage([link.plan for link in links])
        self._staging = staging_memory(links, staging)
        try:
            for link in links:
                link.take("receiver")
        except ValueError:
            self._close_staging()
            raise
        if self._staging is not None:
            self._staging.announce()
        self.links = tuple(links)
        self._linger = linger
        self._destinations = Destinations([link.plan for link in links], most_pages)
        self._live: dict[int, Receiving] = {}
        self._departures = [Departure(link, linger) for link in links]
        self._broken: dict[int, str] = {}
        self._left: set[int] = set()

    @property
    def pages_held(self) -> int:
        """Pages that are reserved and not seen, those of failed transfers included."""
        return sum(each.page_count for each in self._live.values())

    @property
    def quarantined(self) -> tuple[Receiving, ...]:
        """Failed transfers whose pages stay reserved: a peer that has not answered may write there.

        After `close` as well; `poll` or `reclaim` frees them.
        """
        return tuple(each for each in self._live.values() if each.state == "draining")

    @property
    def dropped(self) -> int:
        """Notifications of no transfer under way, or of parts that came before."""
        return sum(link.dropped for link in self.links)

    def receive(
        self, key: str, reserve: Callable[[], Reservation], *, timeout: float = 60.0
    ) -> Receiving:
        """Reserve pages, and ask every peer to write those of `key` there.

        :raises OutOfPages: from `reserve`, or where more than `most_pages` would be held.
        :raises OutOfStaging: for more pages to convert than staging memory has room for in all.
        :raises ValueError: for a key that is under way, or pages that cannot be written: a space
            that travels and has none, a page twice, a reserved one.
        :raises PagesTaken: for a page of another transfer. It has the reservation, whose other
            pages are the caller's to give back; where anything else is refused all are freed.
        :raises TransferError: where a peer is gone, or has said what it must not.
        """
        if any(each.key == key for each in self._live.values()):
            raise ValueError(f"transfer {key} is under way already")
        for at, link in enumerate(self.links):
            if (ended := self._broken.get(at, link.exchange.ended)) is not None:
                raise self._error(at, "reserving", key, ended)
        number = 1 + max(link.transfers for link in self.links)
        reservation = reserve()
        lists = self._destinations.claim(number, reservation)
        staged = self._staged(key, number, reservation, lists)
        arrivals = {
            at: Arrivals(link.steps, {space: len(each) for space, each in pages.items()})
            for at, (link, pages) in enumerate(zip(self.links, lists, strict=True))
        }
        made = Receiving(key, number, reservation, time.monotonic() + timeout, arrivals)
        self._live[number] = made
        for link in self.links:
            link.transfers = number
        if staged is None:
            self._ask(made, lists, [0] * len(lists))
        else:
            self._wait_for_room(made, staged)
        return made

    def decline(self, key: str, reason: str) -> None:
        """Tell the peers that pages of `key` will not be wanted, for example for lack of room."""
        for link in self.links:
            link.exchange.send(Declined(key, reason))

    def cancel(self, receiving: Receiving, reason: str = "cancelled by the receiver") -> None:
        """Want it no longer. Its pages are free once every peer has said that none moves.

        One that is done and was not taken is free at once; of one that was taken nothing changes.
        """
        self._fail(receiving, min(receiving.writers, default=0), reason)
        if receiving.state == "done" and not receiving.is_taken:
            receiving.fail(self._error(0, "moving", receiving.key, reason))
            receiving.settle()

    def reclaim(self, link: Link) -> None:
        """End a link, and free the pages that only its peer could still write.

        For who knows that it cannot: its machine has ended, or its process on another machine.

        :raises ValueError: for a link of another receiver.
        """
        if link not in self.links:
            raise ValueError(f"the link to {link.owner} is not one of this receiver's")
        at = self.links.index(link)
        self._lose(at, "reclaimed by the receiver")
        self._departures[at].reclaim()
        self.poll()

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
        until(self.poll, lambda: receiving.state not in ("waiting", "moving"))
        return receiving.take()

    def close(self) -> None:
        """Cancel what is under way, wait up to twice `linger` until none moves, and end the links.

        Pages of peers that have not answered stay reserved, as `quarantined` has them: bytes may
        land in them. A later `poll` frees those of a process that has ended, `reclaim` any.
        """
        for each in list(self._live.values()):
            self.cancel(each, "closed by the receiver")
        end = time.monotonic() + 2 * self._linger
        if len(self._left) < len(self.links):
            until(self.poll, lambda: not self._live or time.monotonic() > end)
        for at, link in enumerate(self.links):
            self._leave(at, link)
        self._close_staging()

    def _staged(
        self, key: str, number: int, reservation: Reservation, lists: list[PageNumbers]
    ) -> Staged | None:
        """What of it is converted; where that can never be, nothing is held."""
        if self._staging is None:
            return None
        try:
            return self._staging.stage(key, lists)
        except OutOfStaging:
            self._destinations.release(number)
            reservation.free()
            raise

    def _wait_for_room(self, made: Receiving, staged: Staged) -> None:
        assert self._staging is not None  # something is converted
        made.staged, made.state = staged, "waiting"
        self._staging.wait(made, staged)
        self._ask_placed()

    def _ask_placed(self) -> None:
        """Ask for what waited, and has a place in staging memory now."""
        for made, addresses in self._staging.placed() if self._staging is not None else ():
            assert made.staged is not None  # it waited
            made.state = "moving"
            self._ask(made, made.staged.lists, addresses)

    def _ask(self, made: Receiving, lists: Sequence[PageNumbers], staging: Sequence[int]) -> None:
        for link, pages, address in zip(self.links, lists, staging, strict=True):
            told = Wanted(made.number, made.key, made.tokens, _as_tuples(pages), address)
            link.exchange.send(told)

    def _hear(self, at: int, link: Link, now: float) -> None:
        for message in link.exchange.receive():
            self._message(at, message, now)
        if at not in self._left:
            self._collect(at, link)
        presence = self._departures[at].presence(now)
        if presence != "here":
            self._lose(at, link.exchange.ended or "closed by the sender")
        if presence == "over":
            for each in self._live.values():
                each.writers.discard(at)
            self._leave(at, link)

    def _collect(self, at: int, link: Link) -> None:
        try:
            came = link.engine.notifications(link.peer)
        except EngineError as error:
            self._distrust(at, str(error))
            return
        for notification in came:
            self._notified(at, link, notification)

    def _lose(self, at: int, reason: str) -> None:
        """Fail what this peer had a part in; it may write there until it says otherwise."""
        for each in self._live.values():
            if at in each.writers:
                self._fail(each, at, reason)

    def _distrust(self, at: int, reason: str) -> None:
        """Want nothing more of a peer that said what it must not; it answers for what it writes."""
        self._broken.setdefault(at, reason)
        self._lose(at, reason)

    def _leave(self, at: int, link: Link) -> None:
        self._left.add(at)
        with suppress(EngineError):  # the engine may have lost the peer before
            link.close()

    def _message(self, at: int, message: Message, now: float) -> None:
        match message:
            case Settled():
                self._settled(at, message)
            case Finished():
                self._departures[at].finished(now)
            case Refused():
                self._distrust(at, "refused there: " + "\n".join(message.reasons))
            case _:
                self._distrust(at, f"a {type(message).__name__} came, out of place")

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
            self._distrust(at, str(error))
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
        if each.state == "waiting":  # no peer was asked, and one may have it to send
            each.fail(self._error(at, "reserving", each.key, reason))
            each.writers.clear()
            self.decline(each.key, reason)
            if self._staging is not None and each.staged is not None:
                self._staging.forget(each, each.staged)
        if each.state != "moving":
            return
        each.fail(self._error(at, "moving", each.key, reason))
        for writer in each.writers:
            self.links[writer].exchange.send(Cancelled(each.number, reason))

    def _error(self, at: int, phase: Phase, key: str, reason: str) -> TransferError:
        return TransferError(reason, peer=self.links[at].owner, phase=phase, key=key)

    def _advance(self, each: Receiving) -> None:
        if each.writers or (each.staged is not None and self._is_converting(each, each.staged)):
            return
        if each.state == "draining":
            each.settle()
        else:
            each.state = "done"
        self._destinations.release(each.number)
        del self._live[each.number]
        if self._staging is not None and each.staged is not None:
            self._staging.leave(each.staged)
            self._ask_placed()

    def _is_converting(self, each: Receiving, staged: Staged) -> bool:
        """Begin to convert what has arrived whole; whether that still goes on."""
        if staged.fence is None and each.state == "moving" and self._staging is not None:
            try:
                self._staging.convert(staged)
            except (ValueError, IndexError, RuntimeError) as error:
                self._fail(each, 0, f"not converted: {error}")
        return staged.fence is not None and not staged.fence.query()

    def _close_staging(self) -> None:
        if self._staging is not None:
            self._staging.close()


def _as_tuples(pages: PageNumbers) -> dict[IndexSpace, tuple[int, ...]]:
    return {space: tuple(each.tolist()) for space, each in pages.items()}
