"""Pages to a peer, part by part: the side that has them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import numpy as np
from numpy.typing import ArrayLike

from ..engines.engine import EngineError, Write
from ..manifests.manifest import IndexSpace
from ..planning.descriptors import Descriptors
from ..planning.page_lists import PageArrays, checked_pages
from ..planning.plan import TransferPlan
from ..planning.staging import direct_plan
from .declines import Declines
from .link import Link
from .messages import Cancelled, Declined, Finished, Part, Settled, Staging, Wanted, encode
from .parts import Cut, blocks_of, cut, of_steps
from .plan_pages import in_pages_of_plan, page_row
from .polling import until
from .readiness import Readiness
from .reservation import PageNumbers
from .sending import Sending
from .staged_parts import staged_blocks_of, to_staging

__all__ = ["Sender"]


class Sender:
    """Sends pages over a link, in its caller's thread: nothing happens but in its calls.

    `poll` is to be called while a transfer is under way: a scheduler does so once a step. At most
    `most_bytes` are on their way at once, in writes of `part_bytes` at most, or of one page of one
    layer. Where the peer goes, writes are given up after `linger` seconds.
    """

    def __init__(
        self,
        link: Link,
        *,
        most_bytes: int = 256 << 20,
        part_bytes: int = 128 << 20,
        linger: float = 1.0,
    ) -> None:
        link.take("sender")
        self.link = link
        self._most_bytes, self._part_bytes, self._linger = most_bytes, part_bytes, linger
        self._live: dict[str, Sending] = {}
        self._wanted: dict[str, Wanted] = {}
        self._declined, self._refused = Declines(), Declines()  # by the receiver, and here
        self._direct = direct_plan(link.plan)
        self._plans: dict[tuple[int, int], TransferPlan] = {}
        self._gone_since: float | None = None

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of writes that the engine has not finished."""
        return sum(each.bytes_in_flight for each in self._live.values())

    @property
    def asked(self) -> frozenset[str]:
        """Keys whose pages the peer wants, and that were not sent."""
        return frozenset(self._wanted)

    def send(
        self,
        key: str,
        pages: Mapping[IndexSpace, ArrayLike],
        *,
        layer_by_layer: bool = False,
        timeout: float = 60.0,
    ) -> Sending:
        """Send these pages to where the peer wants those of `key`, once it has said so.

        `pages` has, by space, page numbers of this side's pool, in the order of tokens; those of
        spaces that do not travel to this peer stay here. Of the window it may have more than the
        peer wants: the last ones go. With `layer_by_layer` a layer goes after `Sending.ready` named
        it, else all may go at once.

        :raises ValueError: for a key that is under way, or what is no list of pages.
        """
        if key in self._live:
            raise ValueError(f"transfer {key} is under way already")
        steps = self.link.steps
        readiness = Readiness(steps, everything=not layer_by_layer)
        made = Sending(key, self.link.owner, time.monotonic() + timeout, readiness)
        for space, each in pages.items():
            if space in self.link.plan.spaces:
                made.own[space] = page_row(space, each)
        self._live[key] = made
        self._refused.take(key)
        if (declined := self._declined.take(key)) is not None:
            made.cancel(declined)
        elif key in self._wanted:
            self._match(made, self._wanted.pop(key))
        return made

    def poll(self) -> None:
        """Hear the peer, look after writes, and post more of them; waits for none."""
        for message in self.link.exchange.receive():
            match message:
                case Wanted():
                    self._want(message)
                case Cancelled():
                    self._cancelled(message)
                case Declined():
                    self._decline(message)
                case Staging():
                    self._connect(message)
                case _:
                    self.link.exchange.refuse(f"a {type(message).__name__} came, out of place")
        now = time.monotonic()
        if self.link.exchange.ended is not None and self._gone_since is None:
            self._gone_since = now
        for each in list(self._live.values()):
            self._advance(each, now)
        self._post()

    def wait(self, sending: Sending) -> None:
        """Poll until it is done.

        :raises TransferError: where it failed; it may not be settled yet.
        """
        until(self.poll, lambda: sending.error is not None or sending.is_settled)
        if sending.error is not None:
            raise sending.error

    def close(self) -> None:
        """Cancel what is under way, wait up to `linger` for what moves, and end the link.

        :raises EngineError: from an engine that will not let go of a write; the rest is done.
        """
        for each in list(self._live.values()):
            each.cancel("closed by the sender")
        end = time.monotonic() + self._linger
        until(self.poll, lambda: not self._live or time.monotonic() > end)
        if not self.bytes_in_flight:
            self.link.exchange.send(Finished())
        with ExitStack() as ending:
            ending.callback(self.link.close)
            for each in self._live.values():
                ending.callback(_give_up, each)

    def _want(self, wanted: Wanted) -> None:
        self._declined.take(wanted.key)  # the peer thought better of it
        each = self._live.get(wanted.key)
        if each is not None and each.wanted is None:
            self._match(each, wanted)
        elif (refused := self._refused.take(wanted.key)) is not None:
            self.link.exchange.send(Settled(wanted.transfer, refused))
        else:
            self._wanted[wanted.key] = wanted

    def _match(self, sending: Sending, wanted: Wanted) -> None:
        sending.wanted = wanted
        try:
            paired = _paired(self.link.plan, sending.own, wanted)
            sending.pages = checked_pages(self.link.plan, paired, with_reserved=False)
            if self._direct is not self.link.plan:
                sending.staged = to_staging(self.link.plan, sending.pages, wanted)
        except (ValueError, IndexError) as error:
            sending.cancel(str(error))
        if sending.state == "waiting":
            sending.state = "moving"

    def _connect(self, staging: Staging) -> None:
        """Know of the memory that the peer has registered since."""
        link = self.link
        try:
            if (peer := link.engine.connect(staging.metadata)) != link.peer:
                raise EngineError(f"staging memory of {peer} was named, the link is to {link.peer}")
        except EngineError as error:
            link.exchange.refuse(str(error))

    def _cancelled(self, message: Cancelled) -> None:
        for each in self._live.values():
            if each.wanted is not None and each.wanted.transfer == message.transfer:
                each.cancel(f"cancelled by the receiver: {message.reason}")
                return
        self._wanted = {k: w for k, w in self._wanted.items() if w.transfer != message.transfer}
        self.link.exchange.send(Settled(message.transfer, message.reason))

    def _decline(self, message: Declined) -> None:
        reason = f"declined by the receiver: {message.reason}"
        if message.key in self._live:
            self._live[message.key].cancel(reason)
        else:
            self._declined.note(message.key, reason)

    def _advance(self, each: Sending, now: float) -> None:
        self._look_at_writes(each)
        if self._gone_since is not None:
            self._without_peer(each, now - self._gone_since)
        if now > each.deadline:
            each.cancel("not done in time")
        if each.state == "draining" and not each.writes:
            each.state = "failed"
            self._settle(each, str(each.error and each.error.reason))
        elif each.state == "moving" and self._is_whole(each):
            each.state = "done"
            if not any(each.counts.values()):
                self._settle(each, "")
        if each.is_settled:
            del self._live[each.key]

    def _without_peer(self, each: Sending, gone: float) -> None:
        """A peer that has got everything may end before the engine says so here."""
        is_posted = each.readiness.is_exhausted and not each.todo
        if not is_posted or gone > self._linger:
            each.cancel(self.link.exchange.ended or "")
        if gone > self._linger:
            _give_up(each)

    def _settle(self, each: Sending, reason: str) -> None:
        if each.wanted is not None:
            self.link.exchange.send(Settled(each.wanted.transfer, reason))
        elif reason:
            self._refused.note(each.key, f"declined by the sender: {reason}")

    def _look_at_writes(self, each: Sending) -> None:
        moving: list[tuple[Write, int]] = []
        for write, nbytes in each.writes:
            state = write.state()
            if state == "moving":
                moving.append((write, nbytes))
                continue
            write.release()
            if state == "failed":
                each.cancel(f"{self.link.engine.kind} lost a write")
        each.writes = moving

    def _is_whole(self, each: Sending) -> bool:
        return each.readiness.is_exhausted and not each.todo and not each.writes

    def _post(self) -> None:
        """All addresses first: an engine that copies at once leaves cold caches behind."""
        made = [(each, part, self._blocks(each, part)) for each, part in self._next()]
        for each, part, blocks in made:
            if blocks is not None and each.state == "moving":
                self._write(each, part, blocks)

    def _next(self) -> Iterator[tuple[Sending, Cut]]:
        """First come, first served, until `most_bytes` are on their way or are to be posted now."""
        room = self._most_bytes - self.bytes_in_flight
        is_first = room == self._most_bytes
        for each in self._live.values():
            if each.state != "moving":
                continue
            self._cut(each)
            while each.todo and (is_first or each.todo[0].nbytes <= room):
                room, is_first = room - each.todo[0].nbytes, False
                yield each, each.todo.popleft()
            if each.todo:
                return

    def _cut(self, each: Sending) -> None:
        for begin, end in each.readiness.take():
            each.todo += cut(self.link.steps, begin, end, each.counts, self._part_bytes)

    def _plan_of(self, part: Cut) -> TransferPlan:
        """Kept: every transfer is cut at the same layers, or layer by layer."""
        span = part.step_begin, part.step_end
        if span not in self._plans:
            self._plans[span] = of_steps(self._direct, self.link.steps, *span)
        return self._plans[span]

    def _blocks(self, each: Sending, part: Cut) -> Descriptors | None:
        try:
            if each.staged is None:
                return blocks_of(self._plan_of(part), each.pages, part)
            span = part.step_begin, part.step_end
            staged = of_steps(each.staged, self.link.steps, *span)
            return staged_blocks_of(self._plan_of(part), staged, each.pages, part)
        except (ValueError, IndexError) as error:
            each.cancel(str(error))
            return None

    def _write(self, each: Sending, part: Cut, blocks: Descriptors) -> None:
        assert each.wanted is not None  # only what is wanted moves
        told = Part(self.link.their_session, each.wanted.transfer, *part[:-1])
        try:
            write = self.link.engine.write(self.link.peer, *blocks, encode(told))
        except (EngineError, ValueError, IndexError) as error:
            each.cancel(str(error))
        else:
            each.writes.append((write, part.nbytes))


def _paired(plan: TransferPlan, pages: PageNumbers, wanted: Wanted) -> PageArrays:
    """Own pages with the peer's, space by space; of the window the last ones, as many as wanted.

    :raises ValueError: for other spaces, or another number of pages, than are wanted.
    """
    if set(pages) != set(wanted.pages):
        here, there = (", ".join(sorted(each)) or "none" for each in (pages, wanted.pages))
        raise ValueError(f"pages of spaces {here} are sent, of {there} wanted")
    paired: PageArrays = {}
    for space, each in pages.items():
        own = in_pages_of_plan(plan, space, each, wanted.tokens)
        theirs = np.array(wanted.pages[space], np.int64)
        if space == "window":
            own = own[max(0, len(own) - len(theirs)) :]
        if len(own) != len(theirs):
            raise ValueError(f"{space}: {len(own)} pages are sent, {len(theirs)} wanted")
        paired[space] = own, theirs
    return paired


def _give_up(each: Sending) -> None:
    with ExitStack() as ending:
        while each.writes:
            ending.callback(each.writes.pop()[0].release)
