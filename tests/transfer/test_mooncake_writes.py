"""Writes over Mooncake wait for nobody, and have ended only when all of their blocks have.

The first tests are against a stand-in for Mooncake's module whose blocks end when a test says so;
those that need the library say so where it is missing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from kvproto.transfer.engines import mooncake_writes
from kvproto.transfer.engines.engine import Blocks, EngineError, EngineUnavailable, Write
from kvproto.transfer.engines.mooncake_engine import MooncakeEngine
from tests.transfer.engine_peer import NBYTES
from tests.transfer.test_engines import Side, finished, peer_process, reached, told

MOST = 1024


class Native:
    """Mooncake's engine, as far as it is used: blocks end as `end` says."""

    made: list[Native]

    def __init__(self) -> None:
        Native.made.append(self)
        self.port = 7000 + len(Native.made)
        self.blocks: dict[int, tuple[int, int, int]] = {}
        self.ends: dict[int, int] = {}
        self.submitted = 0
        self.known: set[int] = set()
        self.refuses = self.fails_to_notify = False
        self.notified: list[str] = []
        self.may_notify = threading.Event()
        self.may_notify.set()

    def initialize(self, *_: str) -> int:
        return 0

    def get_rpc_port(self) -> int:
        return self.port

    def register_memory(self, start: int, _: int) -> int:
        self.known.add(start)
        return 0

    def unregister_memory(self, start: int) -> int:
        if self.refuses:
            return -1
        self.known.remove(start)
        return 0

    def transfer_sync_write(self, *_: object) -> int:
        return -1 if self.refuses else 0

    def transfer_sync(self, *arguments: object) -> int:
        self.may_notify.wait(10)
        if self.fails_to_notify:
            return -1
        note = arguments[-1]
        assert isinstance(note, SimpleNamespace)
        self.notified.append(note.msg)
        return 0

    def transfer_submit_write(self, _: str, *block: int) -> int:
        if self.refuses:
            return 2**64 - 1
        self.submitted += 1
        self.blocks[self.submitted] = block[0], block[1], block[2]
        return self.submitted

    def transfer_check_status(self, block: int) -> int:
        status = self.ends.get(block, 0)
        if status in (1, -1):
            del self.blocks[block]  # asking once more would be a use after free
        return status

    def get_notifies(self) -> list[object]:
        return []

    def end(self, status: int, *blocks: int) -> None:
        self.ends.update(dict.fromkeys(blocks or tuple(self.blocks), status))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    Native.made = []
    module = ModuleType("mooncake.engine")
    vars(module).update(
        TransferEngine=Native,
        TransferOpcode=SimpleNamespace(Write="write"),
        TransferNotify=lambda name, msg: SimpleNamespace(name=name, msg=msg),
    )
    monkeypatch.setitem(sys.modules, "mooncake", ModuleType("mooncake"))
    monkeypatch.setitem(sys.modules, "mooncake.engine", module)
    return module


class Sent:
    """An engine over the stand-in, with a peer and memory of many one-byte blocks."""

    def __init__(self) -> None:
        self.engine, self.there = MooncakeEngine(), MooncakeEngine()
        self.memory = np.zeros((2, 4 * MOST), np.uint8)
        self.engine.register([(self.memory[0].ctypes.data, 4 * MOST)])
        self.there.register([(self.memory[1].ctypes.data, 4 * MOST)])
        self.peer = self.engine.connect(self.there.metadata())
        self.native = Native.made[0]

    def write(self, count: int, notification: bytes = b"note") -> Write:
        ends = [self._blocks(end, count) for end in (0, 1)]
        return self.engine.write(self.peer, ends[0], ends[1], notification)

    def _blocks(self, end: int, count: int) -> Blocks:
        first = self.memory[end].ctypes.data
        return np.array([(first + i, 1) for i in range(count)], np.int64).reshape(-1, 2)


@pytest.fixture
def sent(module: ModuleType) -> Iterator[Sent]:
    made = Sent()
    yield made
    made.native.may_notify.set()
    made.engine.close()
    made.there.close()


def test_two_writes_are_on_their_way_at_once_and_end_by_themselves(sent: Sent) -> None:
    first, second = sent.write(3, b"\1"), sent.write(2, b"\2")
    assert len(sent.native.blocks) == 5
    assert (first.state(), second.state()) == ("moving", "moving")
    sent.native.end(1, 4, 5)
    assert finished(second) == "done"
    assert first.state() == "moving"
    assert sent.native.notified == ["02"]
    sent.native.end(1)
    assert finished(first) == "done"
    assert sent.native.notified == ["02", "01"]
    assert not sent.native.blocks


def test_a_lost_block_fails_the_write_once_no_other_can_land(sent: Sent) -> None:
    """Mooncake's own call for a batch says that it failed while other blocks still land."""
    write = sent.write(MOST + 20)
    sent.native.end(-1, 2)
    assert write.state() == "moving"
    assert sent.native.submitted == MOST  # what had not begun does not begin
    sent.native.end(1, *range(3, MOST + 1))
    assert write.state() == "moving"
    sent.native.end(1, 1)
    assert finished(write) == "failed"
    assert sent.native.notified == []


def test_a_block_that_is_late_may_land_yet(sent: Sent) -> None:
    write = sent.write(1)
    sent.native.end(-2)
    assert write.state() == "moving"
    sent.native.end(1)
    assert finished(write) == "done"


def test_more_blocks_than_mooncake_takes_go_as_others_land(sent: Sent) -> None:
    first, second = sent.write(3 * MOST), sent.write(5)
    most = 0
    while first.state() == "moving" or second.state() == "moving":
        most = max(most, len(sent.native.blocks))
        sent.native.end(1)
    assert most == MOST
    assert sent.native.submitted == 3 * MOST + 5
    assert (first.state(), second.state()) == ("done", "done")


def test_large_blocks_go_a_few_at_a_time(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification waits behind what is under way."""
    monkeypatch.setattr(mooncake_writes, "_MOST_BYTES", 2)
    write, most = sent.write(7), 0
    while write.state() == "moving":
        most = max(most, len(sent.native.blocks))
        sent.native.end(1)
    assert (most, sent.native.submitted, write.state()) == (2, 7, "done")


def test_a_peer_that_is_slow_to_hear_holds_up_neither_poll_nor_another_write(sent: Sent) -> None:
    sent.native.may_notify.clear()
    write = sent.write(1)
    sent.native.end(1)
    began = time.monotonic()
    assert {write.state() for _ in range(100)} == {"moving"}
    third = MooncakeEngine()
    with closing(third):
        other = sent.engine.connect(third.metadata())
        nothing = np.empty((0, 2), np.int64)
        told_to_other = sent.engine.write(other, nothing, nothing, b"")
        assert told_to_other.state() == "moving"
        assert time.monotonic() - began < 5
        sent.native.may_notify.set()
        assert (finished(write), finished(told_to_other)) == ("done", "done")


def test_a_notification_that_could_not_be_sent_fails_the_write(sent: Sent) -> None:
    sent.native.fails_to_notify = True
    assert finished(sent.write(0)) == "failed"


def test_a_block_that_mooncake_does_not_take_fails_the_write(sent: Sent) -> None:
    sent.native.refuses = True
    assert finished(sent.write(4)) == "failed"
    sent.native.refuses = False


@pytest.mark.parametrize("end", ["release", "disconnect"])
def test_a_write_that_is_given_up_notifies_nobody_and_its_blocks_are_looked_after(
    sent: Sent, end: str
) -> None:
    write = sent.write(MOST + 1)
    if end == "release":
        write.release()
    else:
        sent.engine.disconnect(sent.peer)
    assert write.state() == "moving"  # what moves may land still
    sent.native.end(1)
    assert finished(write) == "failed"
    assert not sent.native.blocks
    assert sent.native.submitted == MOST
    assert sent.native.notified == []


@pytest.mark.parametrize("is_forgotten_first", [False, True])
def test_closing_ends_threads_and_lets_go_of_the_library(
    sent: Sent, is_forgotten_first: bool
) -> None:
    sent.native.may_notify.clear()
    moving, told_late = sent.write(2), sent.write(0)
    if is_forgotten_first:
        sent.engine.disconnect(sent.peer)
    threading.Timer(0.1, sent.native.may_notify.set).start()
    sent.engine.close()
    assert [each.name for each in threading.enumerate() if "mooncake" in each.name] == []
    assert (moving.state(), told_late.state()) == ("failed", "done")
    alive = weakref.ref(sent.native)
    sent.native = Native.made[0] = Native.made[1]
    assert alive() is None, "a write or a registration has Mooncake's engine still"


def test_memory_that_is_not_let_go_of_is_an_error(sent: Sent) -> None:
    more = np.zeros(8, np.uint8)
    registration = sent.engine.register([(more.ctypes.data, 8), (more.ctypes.data + 8, 0)])
    sent.native.refuses = True
    with pytest.raises(EngineError, match="cannot be withdrawn"):
        registration.release()
    registration.release()
    sent.native.refuses = False


def test_a_peer_that_does_not_answer_is_not_connected(sent: Sent) -> None:
    third = MooncakeEngine()
    sent.native.refuses = True
    with closing(third), pytest.raises(EngineError, match=f"{third.name} does not answer"):
        sent.engine.connect(third.metadata())
    sent.native.refuses = False


@pytest.mark.parametrize("version", ["0.3.11.post1", "0.2.9", "0.3"])
def test_a_mooncake_whose_writes_are_done_too_early_is_refused(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    def installed(name: str) -> str:
        if name == "mooncake-transfer-engine-cuda13":
            return version
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", installed)
    with pytest.raises(
        EngineUnavailable, match=r"^mooncake: .*-cuda13 .* done before .*>=0\.3\.12'$"
    ):
        MooncakeEngine()


def test_the_protocol_without_answers_is_refused(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MC_TCP_PROTO", "1")
    with pytest.raises(EngineUnavailable, match="MC_TCP_PROTO=1"):
        MooncakeEngine()


def test_a_process_that_stands_still_holds_up_nobody() -> None:
    """With the library: what is written to it is on its way, and lands when it goes on."""
    side = Side("mooncake", 1)
    with (
        closing(side.engine),
        peer_process("mooncake") as still,
        peer_process("mooncake") as going,
    ):
        (peer, address), (other, elsewhere) = reached(side, still), reached(side, going)
        os.kill(still.pid, signal.SIGSTOP)
        began = time.monotonic()
        whole = side.blocks((0, NBYTES))
        writes = [
            side.engine.write(peer, whole, np.array([(address, NBYTES)], np.int64), b"still")
            for _ in range(8)  # more than sockets hold
        ]
        to_other = np.array([(elsewhere, NBYTES)], np.int64)
        assert finished(side.engine.write(other, whole, to_other, b"going")) == "done"
        assert {write.state() for write in writes} == {"moving"}
        assert time.monotonic() - began < 10
        os.kill(still.pid, signal.SIGCONT)
        assert {finished(write) for write in writes} == {"done"}


def test_thousands_of_blocks_land() -> None:
    """With the library, which refuses as many at once."""
    here, there = Side("mooncake", 1), Side("mooncake", 2)
    with closing(here.engine), closing(there.engine):
        here.engine.connect(there.engine.metadata())
        there.engine.connect(here.engine.metadata())
        places = [(at, 100) for at in range(0, 600_000, 150)]
        local, remote = here.blocks(*places), there.blocks(*places)
        expected = there.memory.copy()
        for at, nbytes in places:
            expected[at : at + nbytes] = here.memory[at : at + nbytes]
        assert finished(here.engine.write(there.engine.name, local, remote, b"all")) == "done"
        assert told(there.engine, here.engine.name) == [b"all"]
        assert np.array_equal(there.memory, expected)
