"""What a receiver does with a peer that it lost, or that said what it must not: nothing is freed
that may be written, and nothing stays reserved that cannot be."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from kvproto.transfer import EngineError
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import PageNumbers, PagesTaken, Reservation, TransferError
from kvproto.transfer.session.exchange import Exchange
from kvproto.transfer.session.messages import Accepted
from kvproto.transfer.session.processes import has_ended, this_process
from kvproto.transfer.session.receiving import Receiving
from tests.transfer.held_engine import HeldEngine
from tests.transfer.sessions import LINGER, Session, session, spin
from tests.transfer.test_stages import both, close

NOTHING = np.empty((0, 2), np.int64)


def turns(made: Session, seconds: float = 3 * LINGER) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        made.poll()


def lost(made: Session) -> Receiving:
    """A transfer whose connection is lost, with both processes alive."""
    receiving = made.receiver.receive("request", made.decode.reserve())
    made.poll()
    made.receiver.links[0].exchange._socket.shutdown(socket.SHUT_RDWR)
    return receiving


@pytest.mark.parametrize("how", ["notification", "message"])
def test_after_what_must_not_be_said_pages_wait_for_the_writes_and_the_sender_is_told(
    how: str,
) -> None:
    engine = HeldEngine()
    with session(engines=(engine, LocalEngine())) as made:
        receiving = made.receiver.receive("request", made.decode.reserve())
        sending = made.sender.send("request", made.prefill.pages())
        made.poll()
        reserved = made.decode.free()
        if how == "notification":
            engine.inner.write(made.sender.link.peer, NOTHING, NOTHING, b"\xff")
        else:
            made.sender.link.exchange.send(Accepted())
        turns(made)
        why = {"notification": "no notification", "message": "an? Accepted came, out of place"}[how]
        with pytest.raises(TransferError, match=why):
            receiving.take()
        with pytest.raises(TransferError, match="cancelled by the receiver: "):
            made.sender.wait(sending)
        assert (sending.state, receiving.state) == ("draining", "draining")
        assert made.decode.free() == reserved
        with pytest.raises(TransferError, match=f"prefill, reserving: .*{why}"):
            made.receiver.receive("next", made.decode.reserve())
        engine.let_go()
        spin(made, sending, receiving)
        assert made.decode.free() > reserved


def test_a_peer_that_sends_no_messages_is_told_why_and_sees_the_end() -> None:
    with session() as made:
        made.sender.link.exchange._socket.send(b"\0\0\0\1\xff")
        made.receiver.poll()
        peer: Exchange = made.sender.link.exchange
        told = peer.take()
        assert "what came is no message of this version" in str(told)
        assert peer.take() is None
        assert peer.ended == "connection closed by the peer"


def test_pages_of_a_lost_peer_are_the_receivers_again_when_its_caller_says_so() -> None:
    with session() as made:
        free = made.decode.free()
        receiving = lost(made)
        turns(made)
        assert str(receiving.error) == (
            "transfer request with prefill, moving: connection closed by the peer"
        )
        assert made.receiver.quarantined == (receiving,)
        made.receiver.reclaim(made.receiver.links[0])
        assert receiving.state == "failed"
        assert not made.receiver.quarantined
        assert made.decode.free() == free


def test_a_closed_receiver_can_be_polled_closed_and_reclaimed() -> None:
    """Its peer hangs."""
    with session() as made:
        free = made.decode.free()
        receiving = made.receiver.receive("request", made.decode.reserve())
        for _ in range(2):
            made.receiver.close()
            made.receiver.poll()
        assert made.receiver.quarantined == (receiving,)
        made.receiver.reclaim(made.receiver.links[0])
        assert not made.receiver.quarantined
        assert made.decode.free() == free


def test_a_sender_that_closes_with_writes_on_their_way_keeps_pages_reserved() -> None:
    engine = HeldEngine()
    with session(engines=(engine, LocalEngine())) as made:
        receiving = made.receiver.receive("request", made.decode.reserve())
        made.sender.send("request", made.prefill.pages())
        made.poll()
        assert engine.held
        made.sender.close()
        turns(made)
        assert made.receiver.quarantined == (receiving,)
        made.receiver.reclaim(made.receiver.links[0])


def test_an_engine_that_fails_keeps_no_page() -> None:
    class Failing(LocalEngine):
        def disconnect(self, peer: str, /) -> None:
            raise EngineError("it is gone")

    with session(engines=(LocalEngine(), Failing())) as made:
        free = made.decode.free()
        receiving = made.receiver.receive("request", made.decode.reserve())
        made.sender.close()
        end = time.monotonic() + 10
        while not receiving.is_settled:
            made.receiver.poll()
            assert time.monotonic() < end
        assert made.decode.free() == free


def test_a_transfer_that_became_done_can_be_cancelled_until_it_is_taken() -> None:
    with session() as made:
        free = made.decode.free()
        receivings = [made.receiver.receive(k, made.decode.reserve()) for k in "ab"]
        spin(made, *receivings, *(made.sender.send(k, made.prefill.pages()) for k in "ab"))
        taken = receivings[1].take()
        for each in receivings:
            made.receiver.cancel(each, "the user left")
        assert [each.state for each in receivings] == ["failed", "done"]
        with pytest.raises(TransferError, match="the user left"):
            receivings[0].take()
        taken.free()
        assert made.decode.free() == free


def test_pages_of_two_transfers_come_back_with_the_error() -> None:
    with session() as made:
        first = made.decode.reserve(16)()
        own = made.decode.reserve(32)()
        made.receiver.receive("first", lambda: first)
        pages: PageNumbers = {"full": np.concatenate([own.pages["full"], first.pages["full"]])}
        with pytest.raises(PagesTaken, match="another transfer's already") as raised:
            made.receiver.receive(
                "second",
                lambda: Reservation(pages, own.free, 48, own.slots),
            )
        free = made.decode.free()
        raised.value.reservation.free()
        assert made.decode.free()[0] == free[0] + 32


def test_a_process_is_known_to_have_ended_only_where_that_is_certain() -> None:
    machine, pid, started = this_process().split(" ")
    assert not has_ended(this_process())
    assert has_ended(f"{machine} {pid} {int(started) - 1}")  # its number is another one's now
    assert not has_ended(f"{machine}0 {pid} {int(started) - 1}")  # of another machine
    assert not has_ended("")  # of a peer that cannot say
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    _, _, began = (Path("/proc") / str(child.pid) / "stat").read_text().rpartition(") ")
    name = f"{machine} {child.pid} {began.split()[19]}"
    assert not has_ended(name)
    child.communicate()
    assert has_ended(name)


def test_the_stage_that_declines_is_named() -> None:
    stages, decode, senders, receiver = both()
    senders[1].send("request", stages[1].pages()).cancel("it is out of memory")
    senders[1].poll()
    receiving = receiver.receive("request", decode.reserve())
    senders[1].poll()
    receiver.poll()
    assert "request with stage-1, moving: declined by the sender: it is" in str(receiving.error)
    close(*senders, receiver)


def test_a_write_that_the_engine_holds_on_to_keeps_neither_the_others_nor_the_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = HeldEngine()
    with session(engines=(engine, LocalEngine()), sender={"part_bytes": 1}) as made:
        made.receiver.receive("request", made.decode.reserve())
        made.sender.send("request", made.prefill.pages())
        made.poll()
        first, *others = engine.held

        def refuse() -> None:
            raise EngineError("it is in use")

        monkeypatch.setattr(first, "release", refuse)
        with pytest.raises(EngineError, match="it is in use"):
            made.sender.close()
        assert others
        assert all(each.released for each in others)
        assert made.sender.bytes_in_flight == 0
        with pytest.raises(EngineError, match="is not connected"):
            engine.notifications(made.decode.engine.name)
