"""A peer that is killed, before, during or after a transfer: an error in time, and nothing half.

Processes are forked, and only those are killed. The engine of most is the local one; NIXL's own
ways of noticing are in the last tests.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pytest
import torch

from kvproto.transfer import TransferEngine
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.engines.nixl_engine import NixlEngine
from kvproto.transfer.session import Receiver, Sender, TransferError, open_link
from tests.transfer.held_engine import HeldEngine
from tests.transfer.pools import snapshot
from tests.transfer.sessions import LINGER, Side

When = Literal["before", "during", "after"]
WHENS: tuple[When, ...] = ("before", "during", "after")
PART = 1 << 16
SECONDS = 15.0


@contextmanager
def forked(main: Callable[[socket.socket, Any], None]) -> Generator[tuple[socket.socket, Any, int]]:
    """A process that runs `main`; the socket to it, the pipe from it, its id."""
    context = multiprocessing.get_context("fork")
    here, there = socket.socketpair()
    told, tell = context.Pipe(duplex=False)

    def child() -> None:
        here.close()
        torch.set_num_threads(1)  # the threads of the process that was forked are not here
        main(there, tell)

    process = context.Process(target=child, daemon=True)
    process.start()
    there.close()
    assert process.pid is not None
    try:
        yield here, told, process.pid
    finally:
        process.kill()
        process.join()


def sends(when: When, engine: Callable[[], TransferEngine]) -> Callable[[socket.socket, Any], None]:
    """A sender that gets so far, says so, and waits for its end."""

    def main(peer: socket.socket, tell: Any) -> None:
        held = HeldEngine(engine()) if when == "during" else None
        side = Side.of("mha", "prefill", 1, held or engine())
        sender = Sender(open_link(side.engine, side.manifest, peer, role="sender"), part_bytes=PART)
        if when != "before":
            sending = sender.send("request", side.pages())
            while not sending.is_settled and not (held and held.held):
                sender.poll()
            if held:
                held.let_go(5)
                sender.poll()
        tell.send("so far")
        time.sleep(SECONDS)

    return main


def receives(
    when: When, engine: Callable[[], TransferEngine]
) -> Callable[[socket.socket, Any], None]:
    """A receiver that gets so far, says so, and waits for its end."""

    def main(peer: socket.socket, tell: Any) -> None:
        side = Side.of("mha", "decode", 2, engine())
        receiver = Receiver([open_link(side.engine, side.manifest, peer, role="receiver")])
        if when != "before":
            receiving = receiver.receive("request", side.reserve())
            while when == "after" and not receiving.is_settled:
                receiver.poll()
        tell.send("so far")
        time.sleep(SECONDS)

    return main


@pytest.mark.parametrize("when", WHENS)
def test_a_sender_is_killed(when: When) -> None:
    killed_sender(when, LocalEngine)


@pytest.mark.parametrize("when", ["during", "after"])
def test_a_sender_over_nixl_is_killed(when: When) -> None:
    killed_sender(when, NixlEngine)


def killed_sender(when: When, engine: Callable[[], TransferEngine]) -> None:
    with forked(sends(when, engine)) as (peer, told, pid):
        side = Side.of("mha", "decode", 2, engine())
        link = open_link(side.engine, side.manifest, peer, role="receiver")
        receiver = Receiver([link], linger=LINGER)
        free = side.free()
        receiving = receiver.receive("request", side.reserve())
        while not told.poll():
            receiver.poll()
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        if when == "after":
            taken = receiver.wait(receiving)
            assert taken.tokens == 43
            taken.free()
        else:
            with pytest.raises(TransferError, match="request with prefill, moving: connection"):
                receiver.wait(receiving)
            while not receiving.is_settled:
                receiver.poll()
            assert time.monotonic() - begin >= LINGER
        assert time.monotonic() - begin < SECONDS
        assert side.free() == free
        assert receiver.pages_held == 0
        receiver.close()
        side.engine.close()


def disconnects(peer: socket.socket, tell: Any) -> None:
    """A sender that loses its connection with writes to come, and does not hear of it."""
    held = HeldEngine()
    side = Side.of("mha", "prefill", 1, held)
    sender = Sender(open_link(side.engine, side.manifest, peer, role="sender"), part_bytes=PART)
    sender.send("request", side.pages())
    while not held.held:
        sender.poll()
    peer.shutdown(socket.SHUT_RDWR)
    tell.send("so far")
    time.sleep(SECONDS)


@pytest.mark.parametrize("is_closed", [False, True])
def test_pages_stay_reserved_while_a_process_that_was_lost_lives(is_closed: bool) -> None:
    with forked(disconnects) as (peer, told, pid):
        side = Side.of("mha", "decode", 2, LocalEngine())
        link = open_link(side.engine, side.manifest, peer, role="receiver")
        receiver = Receiver([link], linger=LINGER)
        free = side.free()
        receiving = receiver.receive("request", side.reserve())
        while not told.poll():
            receiver.poll()
        if is_closed:
            receiver.close()
        with pytest.raises(TransferError, match="request with prefill, moving: "):
            receiver.wait(receiving)
        over = time.monotonic() + 3 * LINGER
        while time.monotonic() < over:
            receiver.poll()
        assert receiver.quarantined == (receiving,)
        assert receiver.pages_held == 3
        assert side.free() < free
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        while not receiving.is_settled:
            receiver.poll()
            assert time.monotonic() < begin + SECONDS
        assert time.monotonic() >= begin + LINGER
        assert not receiver.quarantined
        assert side.free() == free
        receiver.close()
        side.engine.close()


@pytest.mark.parametrize("when", WHENS)
def test_a_receiver_is_killed(when: When) -> None:
    killed_receiver(when, LocalEngine)


def test_a_receiver_over_nixl_is_killed_during_a_transfer() -> None:
    killed_receiver("during", NixlEngine)


def killed_receiver(when: When, engine: Callable[[], TransferEngine]) -> None:
    with forked(receives(when, engine)) as (peer, told, pid):
        side = Side.of("mha", "prefill", 1, engine())
        link = open_link(side.engine, side.manifest, peer, role="sender")
        sender = Sender(link, part_bytes=PART, most_bytes=PART, linger=LINGER)
        before = snapshot(side.manifest)
        sending = sender.send("request", side.pages())
        while when != "before" and len(sending.todo) in (0, 12) and not sending.is_settled:
            sender.poll()
        while when == "after" and not sending.is_settled:
            sender.poll()
        assert told.recv() == "so far"
        os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        if when == "after":
            assert sending.state == "done"
        else:
            with pytest.raises(TransferError, match=r"request with decode, (waiting|moving): "):
                sender.wait(sending)
            while not sending.is_settled:
                sender.poll()
        assert time.monotonic() - begin < SECONDS
        assert sender.bytes_in_flight == 0
        for was, now in zip(before, snapshot(side.manifest), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(was, now, strict=True))
        sender.close()
        side.engine.close()
