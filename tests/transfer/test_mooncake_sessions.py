"""Sessions over Mooncake whose peer is killed, or stands still. `make mooncake` runs these."""

from __future__ import annotations

import os
import signal
import time

import pytest

from kvproto.transfer.engines.engine import EngineUnavailable
from kvproto.transfer.engines.mooncake_engine import MooncakeEngine
from kvproto.transfer.engines.mooncake_library import load_mooncake
from kvproto.transfer.session import Sender, open_link
from tests.transfer.sessions import LINGER, Side
from tests.transfer.test_killed import (
    SECONDS,
    When,
    forked,
    killed_receiver,
    killed_sender,
    receives,
)


@pytest.fixture(autouse=True)
def library() -> None:
    try:
        load_mooncake()
    except EngineUnavailable as error:
        pytest.skip(f"Mooncake DID NOT RUN here, `make mooncake` runs it: {error}")


@pytest.mark.parametrize("when", ["during", "after"])
def test_a_sender_over_mooncake_is_killed(when: When) -> None:
    killed_sender(when, MooncakeEngine)


def test_a_receiver_over_mooncake_is_killed_during_a_transfer() -> None:
    killed_receiver("during", MooncakeEngine)


def test_a_receiver_that_stands_still_holds_up_no_poll_and_settles_nothing() -> None:
    """What was given up may land still: it is settled once the peer has gone on, not before."""
    with forked(receives("during", MooncakeEngine)) as (peer, told, pid):
        side = Side.of("mha", "prefill", 1, MooncakeEngine())
        sender = Sender(open_link(side.engine, side.manifest, peer, role="sender"), linger=LINGER)
        while not sender.asked:
            sender.poll()
        assert told.recv() == "so far"
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        sending = sender.send("request", side.pages())
        sender.poll()
        sending.cancel("given up here")
        for _ in range(200):
            sender.poll()
        assert time.monotonic() - begin < SECONDS / 3
        assert (sending.state, sending.is_settled) == ("draining", False)
        assert sender.bytes_in_flight
        os.kill(pid, signal.SIGCONT)
        while not sending.is_settled:
            sender.poll()
            assert time.monotonic() - begin < SECONDS
        assert sending.state == "failed"
        sender.close()
        side.engine.close()
