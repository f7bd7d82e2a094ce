"""What fails leaves both pools as they were: nothing is lost, seen half, or waited for for ever."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from kvproto.transfer import IndexSpace
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import OutOfPages, Reservation, TransferError
from kvproto.transfer.session.declines import Declines
from kvproto.transfer.session.messages import Part, Wanted, encode
from kvproto.transfer.session.receiving import Receiving
from kvproto.transfer.session.sending import Sending
from tests.transfer.held_engine import HeldEngine
from tests.transfer.sessions import LINGER, Session, arrived, bytes_of, session, spin

PART = 1 << 16
"""Bytes of one page of one layer: twelve parts a transfer."""


@contextmanager
def half_way(count: int = 5) -> Generator[tuple[Session, HeldEngine, Sending, Receiving]]:
    """A transfer of which `count` of twelve parts have moved, and the others are held back."""
    engine = HeldEngine()
    with session(engines=(engine, LocalEngine()), sender={"part_bytes": PART}) as made:
        sending = made.sender.send("request", made.prefill.pages())
        receiving = made.receiver.receive("request", made.decode.reserve())
        made.poll()
        assert len(engine.held) == 12
        engine.let_go(count)
        turns(made)
        yield made, engine, sending, receiving
        engine.let_go()


def turns(made: Session, count: int = 20) -> None:
    for _ in range(count):
        made.poll()


def unseen(receiving: Receiving, error: str) -> None:
    """It failed with these words, which name the peer, and shows no page."""
    assert receiving.error is not None
    assert str(receiving.error) == f"transfer {receiving.key} with prefill, moving: {error}"
    with pytest.raises(TransferError):
        receiving.take()


def test_the_receiver_cancels_and_its_pages_are_free_once_no_write_can_land() -> None:
    with half_way() as (made, engine, sending, receiving):
        reserved = made.decode.free()
        made.receiver.cancel(receiving, "the user left")
        unseen(receiving, "the user left")
        turns(made)
        assert (sending.state, receiving.state) == ("draining", "draining")
        assert made.decode.free() == reserved
        assert made.receiver.pages_held == 3
        engine.let_go()
        spin(made, sending, receiving)
        assert (sending.state, receiving.state) == ("failed", "failed")
        assert str(sending.error) == (
            "transfer request with decode, moving: cancelled by the receiver: the user left"
        )
        assert made.decode.free() > reserved
        assert made.receiver.pages_held == 0
        assert made.receiver.dropped == 7


def test_the_sender_cancels_and_tells_after_its_last_write() -> None:
    with half_way() as (made, engine, sending, receiving):
        reserved = made.decode.free()
        sending.cancel()
        turns(made)
        assert (sending.state, receiving.state) == ("draining", "moving")
        engine.let_go(3)
        turns(made)
        assert made.decode.free() == reserved
        engine.let_go()
        spin(made, sending, receiving)
        unseen(receiving, "cancelled by the sender")
        assert made.decode.free() > reserved


def test_a_sender_that_cancels_what_was_not_asked_for_says_so_to_who_asks() -> None:
    with session() as made:
        sending = made.sender.send("request", made.prefill.pages())
        sending.cancel("the model failed")
        turns(made)
        assert sending.state == "failed"
        receiving = made.receiver.receive("request", made.decode.reserve())
        spin(made, receiving)
        unseen(receiving, "declined by the sender: the model failed")
        assert made.receiver.pages_held == 0
        again = made.receiver.receive("request", made.decode.reserve())
        spin(made, again, made.sender.send("request", made.prefill.pages()))
        assert again.state == "done"


def test_a_sender_that_thinks_better_of_it_sends_after_all() -> None:
    with session() as made:
        made.sender.send("request", made.prefill.pages()).cancel("preempted")
        turns(made, 3)
        again = made.sender.send("request", made.prefill.pages())
        turns(made, 3)
        receiving = made.receiver.receive("request", made.decode.reserve())
        spin(made, again, receiving)
        assert (again.state, receiving.state) == ("done", "done")


def test_a_receiver_that_thinks_better_of_it_receives_after_all() -> None:
    with session() as made:
        made.receiver.decline("request", "no room")
        turns(made, 3)
        receiving = made.receiver.receive("request", made.decode.reserve())
        turns(made, 3)
        sending = made.sender.send("request", made.prefill.pages())
        spin(made, sending, receiving)
        assert (sending.state, receiving.state) == ("done", "done")


def test_declines_that_nobody_asks_about_are_not_kept_for_ever() -> None:
    declines = Declines(most=2)
    for key in ("first", "second", "first", "third"):
        declines.note(key, f"{key} failed")
    assert len(declines) == 2
    assert [declines.take(key) for key in ("first", "second", "third", "third")] == [
        "first failed",
        None,
        "third failed",
        None,
    ]


def test_a_lost_write_fails_both_ends() -> None:
    with half_way() as (made, engine, sending, receiving):
        engine.lose()
        spin(made, sending, receiving)
        unseen(receiving, "local lost a write")
        assert str(sending.error) == "transfer request with decode, moving: local lost a write"
        assert made.receiver.pages_held == 0


def test_a_peer_that_hangs_is_an_error_in_time_and_pages_stay_reserved_until_it_speaks() -> None:
    with session() as made:
        receiving = made.receiver.receive("request", made.decode.reserve(), timeout=0.05)
        reserved, begin = made.decode.free(), time.monotonic()
        with pytest.raises(TransferError, match="with prefill, moving: not done in time"):
            made.receiver.wait(receiving)
        assert time.monotonic() - begin < 5
        for _ in range(20):
            made.receiver.poll()
        assert (receiving.state, made.receiver.pages_held) == ("draining", 3)
        assert made.decode.free() == reserved
        spin(made, receiving)  # the peer wakes up
        assert made.decode.free() > reserved


def test_a_sender_that_nobody_asks_gives_up_in_time() -> None:
    with session() as made:
        sending = made.sender.send("request", made.prefill.pages(), timeout=0.05)
        with pytest.raises(TransferError, match="with decode, waiting: not done in time"):
            made.sender.wait(sending)
        made.sender.poll()
        assert sending.is_settled


def test_a_receiver_out_of_pages_reserves_nothing_and_declines() -> None:
    with session("hybrid") as made:
        free = made.decode.free()
        with pytest.raises(OutOfPages, match="13 pages of 16 tokens are needed, 12 are free"):
            made.receiver.receive("long", made.decode.reserve(13 * 16))
        slots = [made.decode.reserve(16)() for _ in range(4)]
        with pytest.raises(OutOfPages, match="1 state slot is needed, 0 of 4 are free"):
            made.receiver.receive("stateless", made.decode.reserve(16))
        for each in slots:
            each.free()
        assert made.decode.free() == free
        sending = made.sender.send("long", made.prefill.pages())
        made.receiver.decline("long", "13 pages are needed")
        spin(made, sending)
        assert str(sending.error) == (
            "transfer long with decode, waiting: declined by the receiver: 13 pages are needed"
        )


def test_pages_held_for_transfers_are_bounded() -> None:
    with session(receiver={"most_pages": 5}) as made:
        first = made.receiver.receive("first", made.decode.reserve())
        free = made.decode.free()
        with pytest.raises(OutOfPages, match="3 pages are needed, 3 of at most 5 are held"):
            made.receiver.receive("second", made.decode.reserve())
        assert made.decode.free() == free
        spin(made, first, made.sender.send("first", made.prefill.pages()))
        made.receiver.receive("second", made.decode.reserve())


def test_bytes_on_their_way_are_bounded_while_the_engine_is_slow() -> None:
    engine = HeldEngine()
    bounds = {"part_bytes": PART, "most_bytes": 3 * PART}
    with session(engines=(engine, LocalEngine()), sender=bounds) as made:
        sendings = [made.sender.send(f"r{i}", made.prefill.pages(32)) for i in range(3)]
        receivings = [made.receiver.receive(f"r{i}", made.decode.reserve(32)) for i in range(3)]
        while not all([e.is_settled for e in sendings] + [e.is_settled for e in receivings]):
            turns(made, 3)
            assert 0 < len(engine.held) <= 3 or all(e.is_settled for e in sendings)
            assert made.sender.bytes_in_flight <= 3 * PART
            engine.let_go(1)
        assert {e.state for e in sendings} | {e.state for e in receivings} == {"done"}


def test_notifications_that_come_twice_or_late_change_nothing() -> None:
    with half_way() as (made, engine, sending, receiving):
        nothing = np.empty((0, 2), np.int64)

        def say(notification: bytes) -> None:
            engine.inner.write(made.sender.link.peer, nothing, nothing, notification)

        say(engine.notes[0])  # again
        say(encode(Part(1, receiving.number, "full", 0, 4, 0, 3)))  # of another session
        turns(made)
        assert (receiving.state, made.receiver.dropped) == ("moving", 2)
        engine.let_go()
        spin(made, sending, receiving)
        taken = receiving.take()
        held = bytes_of(made)
        for note in engine.notes:
            say(note)  # of a transfer that is over
        turns(made)
        assert made.receiver.dropped == 14
        arrived(held, made, {"full": np.empty(0, np.int64)}, {"full": np.empty(0, np.int64)})
        taken.free()


def test_a_notification_of_what_was_not_asked_for_fails_the_transfer() -> None:
    with half_way() as (made, engine, sending, receiving):
        wrong = Part(made.receiver.links[0].session, receiving.number, "full", 0, 5, 0, 3)
        nothing = np.empty((0, 2), np.int64)
        engine.inner.write(made.sender.link.peer, nothing, nothing, encode(wrong))
        turns(made)
        assert receiving.error is not None
        assert "notified of what was not asked for" in str(receiving.error)
        engine.let_go()
        spin(made, sending, receiving)


def reservation(made: Session, *pages: int) -> Reservation:
    """Pages that no allocator was asked for; freeing them would take what is not theirs."""
    own = made.decode.reserve(0)()
    return Reservation({"full": np.array(pages, np.int64)}, own.free, 16 * len(pages), own.slots)


def test_lists_that_overlap_or_cannot_be_are_refused() -> None:
    with session(receiver={"most_pages": 9}) as made:
        first = made.receiver.receive("first", made.decode.reserve())
        held = made.receiver._destinations._claims[first.number]["full"]
        for pages, why in (
            ((7, 8, 7), "a page is a destination twice"),
            ((0, 8), "page 0 is reserved"),
            ((8, int(held[0])), f"page {held[0]} is another transfer's already"),
        ):
            with pytest.raises(ValueError, match=why):
                made.receiver.receive("second", partial(reservation, made, *pages))
        with pytest.raises(ValueError, match="transfer first is under way already"):
            made.receiver.receive("first", made.decode.reserve())
        assert made.receiver.pages_held == 3


@pytest.mark.parametrize(
    ("pages", "why"),
    [
        ({"full": (3, 3, 4)}, "full: page 3 is a destination twice"),
        ({"full": (3, 4)}, "full: 3 pages are sent, 2 wanted"),
        ({"full": (3, 4, 99)}, "full: remote page 99 is outside 0..12"),
        ({"full": (3, 0, 5)}, "full: remote page 0 is reserved"),
        ({"window": (3, 4, 5)}, "pages of spaces full are sent, of window wanted"),
    ],
)
def test_a_sender_writes_nothing_where_it_is_asked_for_what_cannot_be(
    pages: dict[IndexSpace, tuple[int, ...]], why: str
) -> None:
    with session() as made:
        before = bytes_of(made)
        sending = made.sender.send("request", made.prefill.pages())
        made.receiver.links[0].exchange.send(Wanted(77, "request", 43, pages))
        spin(made, sending)
        assert sending.error is not None
        assert why in str(sending.error)
        arrived(before, made, {"full": np.empty(0, np.int64)}, {"full": np.empty(0, np.int64)})


def test_a_thousand_transfers_at_once() -> None:
    """Asked for in another order than they are sent in, of one or two pages, all whole."""
    count = 1000
    numbers = np.random.default_rng(3)
    with session(pages=2 * count, layers=1, page_size=2) as made:
        before = bytes_of(made)
        tokens = numbers.integers(1, 5, count)
        sources = [made.prefill.pages(int(n)) for n in tokens]
        receivings = {
            i: made.receiver.receive(str(i), made.decode.reserve(int(tokens[i])))
            for i in numbers.permutation(count).tolist()
        }
        sendings = [made.sender.send(str(i), sources[i]) for i in range(count)]
        spin(made, *sendings, *receivings.values())
        assert {e.state for e in sendings} | {e.state for e in receivings.values()} == {"done"}
        target = np.concatenate([receivings[i].take().pages["full"] for i in range(count)])
        source = np.concatenate([each["full"] for each in sources])
        assert len(np.unique(target)) == len(source)
        arrived(before, made, {"full": source}, {"full": target})
        assert made.receiver.dropped == 0


def test_a_closed_side_ends_the_others_transfers() -> None:
    with half_way() as (made, engine, sending, receiving):
        engine.let_go()
        made.sender.close()
        end = time.monotonic() + 10
        while not receiving.is_settled:
            made.receiver.poll()
            assert time.monotonic() < end + LINGER
        assert sending.is_settled
        assert made.receiver.pages_held == 0
        with pytest.raises(TransferError, match="with prefill, reserving: connection closed"):
            made.receiver.receive("next", made.decode.reserve())
