"""Every engine keeps the protocol: between two of one process, and to another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kvproto.transfer.engines import engine as protocol
from kvproto.transfer.engines.engine import (
    Blocks,
    EngineError,
    EngineUnavailable,
    TransferEngine,
    Write,
)
from kvproto.transfer.engines.open_engine import ENGINES, EngineKind, open_engine
from tests.transfer.engine_peer import NBYTES

ROOT = Path(__file__).parents[2]
SECONDS = 10.0


def opened(kind: EngineKind) -> TransferEngine:
    """Mooncake needs libraries of the system: a test that lacks them says so."""
    try:
        return open_engine(kind)
    except EngineUnavailable as error:
        if kind != "mooncake":
            raise
        pytest.skip(f"Mooncake DID NOT RUN here, `make mooncake` runs it: {error}")


def test_without_mooncake_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mooncake.engine", None)
    monkeypatch.setitem(sys.modules, "mooncake", None)
    with pytest.raises(
        EngineUnavailable, match=r"^mooncake: .*: pip install mooncake-transfer"
    ) as e:
        open_engine("mooncake")
    assert "apt-get install libibverbs1 librdmacm1 libnuma1" in str(e.value)


class Side:
    """An engine with memory of its own."""

    def __init__(self, kind: EngineKind, seed: int) -> None:
        self.engine = opened(kind)
        self.memory = np.random.default_rng(seed).integers(1, 256, NBYTES, np.uint8)
        self.engine.register([(self.memory.ctypes.data, NBYTES)])

    def blocks(self, *offsets_and_lengths: tuple[int, int]) -> Blocks:
        rows = [(self.memory.ctypes.data + offset, n) for offset, n in offsets_and_lengths]
        return np.array(rows, np.int64).reshape(-1, 2)


@pytest.fixture(params=ENGINES)
def sides(request: pytest.FixtureRequest) -> Iterator[tuple[Side, Side]]:
    here = Side(request.param, 1)
    with closing(here.engine):
        there = Side(request.param, 2)
        with closing(there.engine):
            yield here, there


def finished(write: Write) -> protocol.WriteState:
    end = time.monotonic() + SECONDS
    while (state := write.state()) == "moving":
        assert time.monotonic() < end, "still moving"
        time.sleep(0.0003)  # not to keep threads of the engine from Python
    write.release()
    return state


def told(engine: TransferEngine, peer: str, count: int = 1) -> list[bytes]:
    end, came = time.monotonic() + SECONDS, list[bytes]()
    while len(came) < count:
        assert time.monotonic() < end, f"only {came}"
        came += engine.notifications(peer)
    return came


def test_blocks_land_where_they_belong_and_nowhere_else(sides: tuple[Side, Side]) -> None:
    here, there = sides
    peer, back = there.engine.metadata(), here.engine.metadata()
    assert here.engine.connect(peer) == there.engine.name
    assert there.engine.connect(back) == here.engine.name
    expected = there.memory.copy()
    runs = [(100, 7, 50), (5000, 100_000, 1), (0, 60, 40), (9000, 200_000, 70_001)]
    for source, target, n in runs:
        expected[target : target + n] = here.memory[source : source + n]
    write = here.engine.write(
        there.engine.name,
        here.blocks(*((source, n) for source, _, n in runs)),
        there.blocks(*((target, n) for _, target, n in runs)),
        b"first\0\xff",
    )
    assert finished(write) == "done"
    assert told(there.engine, here.engine.name) == [b"first\0\xff"]
    assert np.array_equal(there.memory, expected)
    assert there.engine.notifications(here.engine.name) == []


def test_no_blocks_are_a_notification(sides: tuple[Side, Side]) -> None:
    here, there = connected(sides)
    assert finished(here.write(there.name, *no_blocks(), b"nothing")) == "done"
    assert told(there, here.name) == [b"nothing"]


def test_many_notifications_all_come_once(sides: tuple[Side, Side]) -> None:
    here, there = connected(sides)
    sent = [str(i).encode() for i in range(300)]
    writes = [
        here.write(there.name, sides[0].blocks((i, 1)), sides[1].blocks((i, 1)), note)
        for i, note in enumerate(sent)
    ]
    assert {finished(write) for write in writes} == {"done"}
    assert sorted(told(there, here.name, len(sent))) == sorted(sent)
    assert np.array_equal(sides[0].memory[:300], sides[1].memory[:300])


def test_notifications_are_kept_apart_by_peer(sides: tuple[Side, Side]) -> None:
    here, there = connected(sides)
    third = Side(kind_of(here), 3).engine
    with closing(third):
        there.connect(third.metadata())
        third.connect(there.metadata())
        finished(here.write(there.name, *no_blocks(), b"from here"))
        finished(third.write(there.name, *no_blocks(), b"from the third"))
        assert told(there, third.name) == [b"from the third"]
        assert told(there, here.name) == [b"from here"]


def test_what_is_wrong_is_refused_by_name(sides: tuple[Side, Side]) -> None:
    here, there = sides[0].engine, sides[1].engine
    one, other = sides[0].blocks((0, 8)), sides[1].blocks((0, 8))
    with pytest.raises(EngineError, match=f"{here.kind}.*is not connected"):
        here.write("nobody", one, other, b"")
    with pytest.raises(EngineError, match=rf"{here.kind}.*is not connected"):
        here.notifications("nobody")
    with pytest.raises(EngineError, match=r"what came is no .* metadata"):
        here.connect(b"corrupt")
    connected(sides)
    with pytest.raises(EngineError, match=f"write to {there.name}: blocks of a pair differ"):
        here.write(there.name, one, sides[1].blocks((0, 9)), b"")
    with pytest.raises(EngineError, match="1 local blocks for 0 remote ones"):
        here.write(there.name, one, other[:0], b"")
    here.disconnect(there.name)
    here.disconnect(there.name)
    with pytest.raises(EngineError, match="is not connected"):
        here.write(there.name, one, other, b"")


def test_memory_that_is_not_registered_is_not_written(sides: tuple[Side, Side]) -> None:
    here, there = connected(sides)
    beside = np.zeros(64, np.uint8)
    block = np.array([(beside.ctypes.data, 64)], np.int64)
    ends = [(sides[0].blocks((0, 64)), block), (block, sides[1].blocks((0, 64)))]
    for local, remote in ends:
        with pytest.raises(EngineError, match=f"write to {there.name}"):
            here.write(there.name, local, remote, b"")
    assert not beside.any()


def test_memory_registered_later_is_known_after_connecting_again(
    sides: tuple[Side, Side],
) -> None:
    here, there = connected(sides)
    more = np.zeros(4096, np.uint8)
    registration = there.register([(more.ctypes.data, 4096)])
    assert here.connect(there.metadata()) == there.name
    block = np.array([(more.ctypes.data, 4096)], np.int64)
    write = here.write(there.name, sides[0].blocks((5, 4096)), block, b"more")
    assert finished(write) == "done"
    assert told(there, here.name) == [b"more"]
    assert np.array_equal(more, sides[0].memory[5 : 5 + 4096])
    registration.release()
    registration.release()


def test_a_peer_of_this_process_that_is_closed_gets_no_byte() -> None:
    """Of the local engine; other engines' peers may still be closing."""
    sides = Side("local", 1), Side("local", 2)
    with closing(sides[0].engine):
        here, there = connected(sides)
        was = sides[1].memory.copy()
        there.close()
        write = here.write(there.name, sides[0].blocks((0, 64)), sides[1].blocks((0, 64)), b"")
        assert finished(write) == "failed"
        assert np.array_equal(sides[1].memory, was)


def test_memory_can_be_released_after_its_engine_is_closed(sides: tuple[Side, Side]) -> None:
    engine, more = sides[0].engine, np.zeros(64, np.uint8)
    registration = engine.register([(more.ctypes.data, 64)])
    engine.close()
    registration.release()
    registration.release()


@contextmanager
def peer_process(kind: EngineKind) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.transfer.engine_peer", kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as it:
        try:
            yield it
        finally:
            it.kill()


def reached(side: Side, process: subprocess.Popen[str]) -> tuple[str, int]:
    """Connect both ways; the peer's name and where its memory begins."""
    assert process.stdin is not None
    assert process.stdout is not None
    address, metadata = process.stdout.readline().split()
    process.stdin.write(side.engine.metadata().hex() + "\n")
    process.stdin.flush()
    return side.engine.connect(bytes.fromhex(metadata)), int(address)


@pytest.mark.parametrize("kind", ENGINES)
def test_another_process_gets_bytes_and_notification_until_it_is_killed(
    kind: EngineKind, capfd: pytest.CaptureFixture[str]
) -> None:
    """A write to a process that is gone fails soon, and the engine prints nothing."""
    side = Side(kind, 1)
    with closing(side.engine), peer_process(kind) as process:
        peer, address = reached(side, process)
        remote = np.array([(address + 200_000, 50_000), (address, 100_000)], np.int64)
        local = side.blocks((1, 50_000), (300_000, 100_000))
        assert finished(side.engine.write(peer, local, remote, b"all there")) == "done"
        assert process.stdout is not None
        memory, *notifications = map(bytes.fromhex, process.stdout.readline().split())
        assert notifications == [b"all there"]
        assert memory == peers_memory(side)
        process.kill()
        process.wait()
        assert failure(side.engine, peer, local, remote) in ("failed", peer)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == "" or kind == "mooncake"  # which prints its errors


def failure(engine: TransferEngine, peer: str, local: Blocks, remote: Blocks) -> str:
    """The state of the write, or the peer where it is refused at once with the peer's name."""
    try:
        return finished(engine.write(peer, local, remote, b"late"))
    except EngineError as error:
        return peer if peer in str(error) else str(error)


def peers_memory(side: Side) -> bytes:
    expected = np.zeros(NBYTES, np.uint8)
    expected[200_000:250_000] = side.memory[1:50_001]
    expected[:100_000] = side.memory[300_000:400_000]
    return expected.tobytes()


def connected(sides: tuple[Side, Side]) -> tuple[TransferEngine, TransferEngine]:
    here, there = sides[0].engine, sides[1].engine
    here.connect(there.metadata())
    there.connect(here.metadata())
    return here, there


def kind_of(engine: TransferEngine) -> EngineKind:
    return next(kind for kind in ENGINES if kind == engine.kind)


def no_blocks() -> tuple[Blocks, Blocks]:
    return np.empty((0, 2), np.int64), np.empty((0, 2), np.int64)


def test_mooncake_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Engine:
        def initialize(self, *_: str) -> int:
            seen.append(os.environ.get("MC_LOG_LEVEL"))
            return 1

    module = ModuleType("mooncake.engine")
    vars(module)["TransferEngine"] = Engine
    monkeypatch.setitem(sys.modules, "mooncake", ModuleType("mooncake"))
    monkeypatch.setitem(sys.modules, "mooncake.engine", module)
    monkeypatch.delenv("MC_LOG_LEVEL", raising=False)
    with pytest.raises(EngineError, match="no engine at"):
        open_engine("mooncake")
    assert "MC_LOG_LEVEL" not in os.environ
    monkeypatch.setenv("MC_LOG_LEVEL", "INFO")
    with pytest.raises(EngineError, match="no engine at"):
        open_engine("mooncake")
    assert seen == ["ERROR", "INFO"]
    assert os.environ["MC_LOG_LEVEL"] == "INFO"
