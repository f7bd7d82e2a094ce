"""Staging memory is as safe as pages are: lent once, waited for, kept where a write may land."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from kvproto.transfer import TransferEngine
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.engines.nixl_engine import NixlEngine
from kvproto.transfer.session import (
    Receiver,
    Receiving,
    Sender,
    StagingOptions,
    TransferError,
    open_link,
    staging_memory,
)
from kvproto.transfer.session.messages import Staging, Wanted
from kvproto.transfer.session.sending import Sending
from tests.transfer.held_engine import HeldEngine
from tests.transfer.other_layouts import PAGE_BYTES, converting, rows, side
from tests.transfer.pools import snapshot
from tests.transfer.sessions import LINGER, Session, Side, spin
from tests.transfer.test_killed import SECONDS, forked

TOKENS = 43
ROOM = 3 * PAGE_BYTES
"""Staging memory for one transfer of so many tokens, and not for two."""


@contextmanager
def half_way() -> Generator[tuple[Session, HeldEngine, Sending, Receiving]]:
    """A transfer of which one of several writes has moved, and the others are held back."""
    engine = HeldEngine()
    sides = side("nhd", "prefill", 1, engine), side("hnd", "decode", 2)
    with converting(*sides, ROOM, part_bytes=PAGE_BYTES // 2) as made:
        sending = made.sender.send("request", made.prefill.pages(TOKENS))
        receiving = made.receiver.receive("request", made.decode.reserve(TOKENS))
        turns(made, 3)
        assert len(engine.held) > 2
        engine.let_go(1)
        turns(made, 3)
        yield made, engine, sending, receiving
        engine.let_go()


def turns(made: Session, count: int = 20) -> None:
    for _ in range(count):
        made.poll()


def is_as_it_was(held: Side, before: Any) -> bool:
    pairs = zip(before, snapshot(held.manifest), strict=True)
    return all(np.array_equal(a, b) for was, now in pairs for a, b in zip(was, now, strict=True))


def test_staging_of_a_cancelled_transfer_is_lent_again_once_no_write_can_land() -> None:
    with half_way() as (made, engine, sending, receiving):
        before = snapshot(made.decode.manifest)
        second = made.receiver.receive("second", made.decode.reserve(TOKENS))
        made.receiver.cancel(receiving, "the user left")
        turns(made)
        assert (receiving.state, second.state) == ("draining", "waiting")
        engine.let_go()
        spin(made, sending, receiving)
        assert (receiving.state, second.state) == ("failed", "moving")
        assert is_as_it_was(made.decode, before)
        with pytest.raises(TransferError, match="the user left"):
            receiving.take()
        source = made.prefill.reserve(TOKENS)()
        again = made.sender.send("second", source.pages)
        turns(made, 3)
        engine.let_go()
        spin(made, again, second)
        assert all(map(torch.equal, rows(made.prefill, source), rows(made.decode, second.take())))


def test_a_sender_that_cancels_shows_nothing_of_what_arrived() -> None:
    with half_way() as (made, engine, sending, receiving):
        before = snapshot(made.decode.manifest)
        sending.cancel()
        engine.let_go()
        spin(made, sending, receiving)
        assert str(receiving.error).endswith("moving: cancelled by the sender")
        assert is_as_it_was(made.decode, before)
        assert made.receiver.receive("next", made.decode.reserve(TOKENS)).state == "moving"


def test_a_conversion_that_fails_frees_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), ROOM) as made:
        free = made.decode.free()

        def broken(*_: object) -> None:
            raise RuntimeError("out of memory")

        with monkeypatch.context() as patched:
            patched.setattr(staging_memory, "convert_own", broken)
            receiving = made.receiver.receive("request", made.decode.reserve(TOKENS))
            spin(made, receiving, made.sender.send("request", made.prefill.pages(TOKENS)))
        assert str(receiving.error) == (
            "transfer request with prefill, moving: not converted: out of memory"
        )
        assert made.decode.free() == free
        assert made.receiver.receive("next", made.decode.reserve(TOKENS)).state == "moving"


def test_a_sender_writes_nothing_where_no_staging_memory_is_named() -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2)) as made:
        before = snapshot(made.decode.manifest)
        sending = made.sender.send("request", made.prefill.pages(TOKENS))
        made.receiver.links[0].exchange.send(Wanted(9, "request", TOKENS, {"full": (3, 4, 5)}))
        spin(made, sending)
        assert "pages of key, value are converted on arrival, and no staging" in str(sending.error)
        assert is_as_it_was(made.decode, before)


def test_staging_memory_of_another_engine_ends_the_session() -> None:
    other = LocalEngine()
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2)) as made:
        made.receiver.links[0].exchange.send(Staging(other.metadata()))
        made.sender.poll()
        assert f"staging memory of {other.name} was named, the link is to" in str(
            made.sender.link.exchange.ended
        )


def sends(
    engine: Callable[[], TransferEngine], *, is_lost: bool
) -> Callable[[socket.socket, Any], None]:
    """A sender of which one write has landed; then it waits, or loses its connection and writes."""

    def main(peer: socket.socket, tell: Any) -> None:
        held = HeldEngine(engine())
        mine = side("nhd", "prefill", 1, held)
        link = open_link(held, mine.manifest, peer, role="sender")
        sender = Sender(link, part_bytes=PAGE_BYTES // 2)
        sender.send("request", mine.pages(TOKENS))
        while not held.held:
            sender.poll()
        held.let_go(1)
        for _ in range(50):
            sender.poll()
            time.sleep(0.001)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        if is_lost:
            peer.shutdown(socket.SHUT_RDWR)
        tell.send("so far")
        if is_lost:
            signal.sigwait({signal.SIGUSR1})
            late = list(held.held)
            held.let_go()
            tell.send({each.state() for each in late})
        time.sleep(SECONDS)

    return main


@pytest.mark.parametrize("engine", [LocalEngine, NixlEngine])
def test_a_sender_killed_before_the_conversion_leaves_no_trace(
    engine: Callable[[], TransferEngine],
) -> None:
    with forked(sends(engine, is_lost=False)) as (peer, told, pid):
        held = side("hnd", "decode", 2, engine())
        link = open_link(held.engine, held.manifest, peer, role="receiver")
        receiver = Receiver(
            [link], linger=LINGER, staging=StagingOptions(device="cpu", most_bytes=ROOM)
        )
        before, free = snapshot(held.manifest), held.free()
        receiving = receiver.receive("request", held.reserve(TOKENS))
        behind = receiver.receive("behind", held.reserve(TOKENS))
        while not told.poll():
            receiver.poll()
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(TransferError, match="request with prefill, moving: connection"):
            receiver.wait(receiving)
        while not (receiving.is_settled and behind.is_settled):
            receiver.poll()
        assert LINGER <= time.monotonic() - begin < SECONDS
        assert "behind with prefill, reserving: connection" in str(behind.error)
        assert held.free() == free
        assert is_as_it_was(held, before)
        receiver.close()
        held.engine.close()


def test_staging_memory_stays_while_a_process_that_was_lost_may_write_there() -> None:
    """Though the receiver is closed, and nobody holds it."""
    with forked(sends(LocalEngine, is_lost=True)) as (peer, told, pid):
        held = side("hnd", "decode", 2)
        link = open_link(held.engine, held.manifest, peer, role="receiver")
        receiver = Receiver([link], linger=LINGER, staging=StagingOptions(device="cpu"))
        staging = weakref.ref(receiver._staging)
        before = snapshot(held.manifest)
        receiving = receiver.receive("request", held.reserve(TOKENS))
        assert told.recv() == "so far"
        receiver.close()
        assert receiver.quarantined == (receiving,)
        assert receiver._staging is not None
        first, nbytes = receiver._staging._memory.data_ptr(), receiver._staging.nbytes
        receiver._staging = None
        gc.collect()
        arrived = ctypes.string_at(first, nbytes)
        os.kill(pid, signal.SIGUSR1)
        assert told.recv() == {"done"}
        assert ctypes.string_at(first, nbytes) != arrived
        receiver._staging = staging()
        assert receiver._staging in staging_memory._REGISTERED
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        while not receiving.is_settled:
            receiver.poll()
            assert time.monotonic() < begin + SECONDS
        assert staging() not in staging_memory._REGISTERED
        assert is_as_it_was(held, before)
        held.engine.close()
