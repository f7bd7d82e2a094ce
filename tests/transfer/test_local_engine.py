"""The local engine among processes: whose memory a number of a process names, and who is told."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from kvproto.transfer.engines import local_engine
from kvproto.transfer.engines.cross_memory import started, write_across
from kvproto.transfer.engines.engine import EngineError
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.engines.open_engine import open_engine
from tests.transfer.test_engines import Side, connected, finished, no_blocks, told


def writes_back(pipe: Any, metadata: bytes, address: int) -> None:
    """In a process that was forked: an engine of its own writes to the parent's."""
    engine, memory = LocalEngine(), np.full(16, 7, np.uint8)
    engine.register([(memory.ctypes.data, 16)])
    parent = engine.connect(metadata)
    pipe.send(engine.metadata())
    pipe.recv()  # the parent knows this side
    local = np.array([(memory.ctypes.data, 16)], np.int64)
    remote = np.array([(address, 16)], np.int64)
    pipe.send(engine.write(parent, local, remote, b"from the child").state())
    pipe.recv()


def test_a_process_that_was_forked_tells_its_parent() -> None:
    """The engines that its memory has copies of are the parent's."""
    side = Side("local", 1)
    context = multiprocessing.get_context("fork")
    pipe, there = context.Pipe()
    address = side.memory.ctypes.data
    child = context.Process(target=writes_back, args=(there, side.engine.metadata(), address))
    with closing(side.engine):
        child.start()
        try:
            peer = side.engine.connect(pipe.recv())
            pipe.send("go")
            assert pipe.recv() == "done"
            assert told(side.engine, peer) == [b"from the child"]
            assert side.memory[:16].tolist() == [7] * 16
        finally:
            child.kill()
            child.join()


def test_a_later_process_of_the_same_number_gets_no_byte() -> None:
    """Stood in for by this process's parent, which began at another time than the peer."""
    engine, memory = LocalEngine(), np.zeros(8, np.uint8)
    with closing(engine):
        engine.register([(memory.ctypes.data, 8)])
        block = np.array([(memory.ctypes.data, 8)], np.int64)
        head = f"local local-gone {os.getppid()} 12345\n".encode()
        peer = engine.connect(head + block.tobytes())
        assert finished(engine.write(peer, block, block, b"")) == "failed"


def test_a_process_began_once() -> None:
    assert started(os.getpid()) == started(os.getpid()).strip() != ""
    assert started(2**22 + 1) == ""  # above the most that Linux numbers


def test_memory_that_a_peer_withdrew_is_not_written() -> None:
    """Of this process: the table of its spans that came with `connect` is older."""
    sides = Side("local", 1), Side("local", 2)
    with closing(sides[0].engine), closing(sides[1].engine):
        more = np.zeros(64, np.uint8)
        registration = sides[1].engine.register([(more.ctypes.data, 64)])
        here, there = connected(sides)
        registration.release()
        block = np.array([(more.ctypes.data, 64)], np.int64)
        with pytest.raises(EngineError, match=f"write to {there.name}: 64 remote bytes"):
            here.write(there.name, sides[0].blocks((0, 64)), block, b"")
        assert not more.any()


def test_a_notification_comes_whole_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = LocalEngine(), LocalEngine()
    with closing(here), closing(there):
        here.connect(there.metadata())
        there.connect(here.metadata())
        longest = os.urandom(1 << 16)
        with pytest.raises(EngineError, match="a notification of 65537 bytes is too long"):
            here.write(there.name, *no_blocks(), longest + b"1")
        assert finished(here.write(there.name, *no_blocks(), longest)) == "done"
        monkeypatch.setattr(local_engine, "_HERE", {})  # as in another process: by its socket
        assert here.tell(there.name, longest) == "done"
        assert told(there, here.name, 2) == [longest, longest]


def test_a_write_that_waits_for_room_ends_with_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = LocalEngine(), LocalEngine()
    with closing(here), closing(there):
        here.connect(there.metadata())
        monkeypatch.setattr(local_engine, "_HERE", {})
        while here.tell(there.name, b"") == "done":
            pass
        write = local_engine._Written(here, there.name, b"")
        assert write.state() == "moving"
        here.close()
        assert write.state() == "failed"


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EPERM, "ptrace_scope"), (errno.ENOMEM, "Cannot allocate memory")]
)
def test_what_the_kernel_refuses_is_not_taken_for_a_peer_that_has_gone(
    number: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "get_errno", lambda: number)
    monkeypatch.setattr(ctypes, "CDLL", Refusing)
    block = np.array([(4096, 8)], np.int64)
    with pytest.raises(EngineError, match=f"can write nothing to process 1: .*{hint}"):
        write_across(1, block, block)
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.ESRCH)
    assert not write_across(1, block, block)


class Refusing:
    """A C library whose kernel writes to no other process."""

    def __init__(self, *_: object, **__: object) -> None:
        def refuse(*_: object) -> int:
            return -1

        self.process_vm_writev = refuse


def test_an_engine_of_no_name_is_refused() -> None:
    name: Any = "carrier pigeon"
    with pytest.raises(
        ValueError, match="engine 'carrier pigeon': there are nixl, mooncake, local"
    ):
        open_engine(name)
