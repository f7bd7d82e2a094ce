"""NIXL's handles, registrations and threads end, also where NIXL raises.

Against a stand-in for its agent that fails when a test says so; two are with NIXL itself.
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kvproto.transfer.engines.engine import EngineError, EngineUnavailable
from kvproto.transfer.engines.nixl_engine import NixlEngine, _Registered, _Writing
from tests.transfer.test_engines import Side


class Agent:
    """NIXL's agent, as far as it is used."""

    made: Agent

    def __init__(self, *_: object) -> None:
        Agent.made = self
        self.backends = {"UCX": 1}
        self.handles: set[int] = set()
        self.registered: set[int] = set()
        self.fails: set[str] = set()

    def register_memory(self, *_: object) -> int:
        self.registered.add(len(self.registered) + 100)
        return max(self.registered)

    def deregister_memory(self, held: int) -> None:
        self.may_fail("deregister")
        self.registered.remove(held)

    def add_remote_agent(self, metadata: bytes) -> bytes:
        return metadata

    def remove_remote_agent(self, _: str) -> None:
        self.may_fail("disconnect")

    def get_xfer_descs(self, *_: object) -> object:
        return object()

    def initialize_xfer(self, *_: object) -> int:
        self.handles.add(len(self.handles) + 1)
        return max(self.handles)

    def transfer(self, _: int) -> str:
        self.may_fail("transfer")
        return "PROC"

    def check_xfer_state(self, _: int) -> str:
        return "PROC"

    def release_xfer_handle(self, handle: int) -> None:
        self.may_fail("release")
        self.handles.remove(handle)

    def may_fail(self, what: str) -> None:
        if what in self.fails:
            raise RuntimeError("lost the device")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> NixlEngine:
    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, name, made)

    module("nixl_cu12")
    module("nixl_cu12._api", nixl_agent=Agent, nixl_agent_config=SimpleNamespace)
    module("nixl_cu12._bindings")
    made = NixlEngine()
    made.connect(b"peer")
    return made


BLOCK = np.array([(4096, 8)], np.int64)


def test_a_transfer_that_does_not_begin_leaves_no_handle(engine: NixlEngine) -> None:
    Agent.made.fails = {"transfer"}
    with pytest.raises(EngineError, match="write to peer: lost the device"):
        engine.write("peer", BLOCK, BLOCK, b"")
    assert not Agent.made.handles


def test_closing_releases_what_moves_and_keeps_no_agent(engine: NixlEngine) -> None:
    agent = weakref.ref(Agent.made)
    kept = engine.write("peer", BLOCK, BLOCK, b""), engine.register([(4096, 8)])
    engine.close()
    assert (Agent.made.handles, Agent.made.registered) == (set(), set())
    del Agent.made
    gc.collect()
    assert agent() is None, "what the caller keeps has NIXL's agent still"
    for each in kept:
        each.release()


@pytest.mark.parametrize("fails", ["deregister", "disconnect", "release"])
def test_what_fails_while_closing_is_told_after_the_rest_is_closed(
    engine: NixlEngine, fails: str
) -> None:
    agent = Agent.made
    kept = [engine.register([(4096, 8)]), engine.write("peer", BLOCK, BLOCK, b"")]
    agent.fails = {fails}
    with pytest.raises(EngineError, match="lost the device"):
        engine.close()
    assert bool(agent.handles) == (fails == "release")
    assert bool(agent.registered) == (fails == "deregister")
    engine.close()
    assert len(kept) == 2


def test_a_registration_that_is_released_is_forgotten(engine: NixlEngine) -> None:
    made = weakref.ref(registration := engine.register([(4096, 8)]))
    registration.release()
    del registration
    gc.collect()
    assert made() is None
    engine.register([(4096, 8)])  # which nobody keeps
    gc.collect()
    assert Agent.made.registered
    engine.close()
    assert not Agent.made.registered


def test_what_nixl_raises_on_release_is_an_engine_error(engine: NixlEngine) -> None:
    agent, errors = Agent.made, (RuntimeError,)
    agent.fails = {"deregister", "release"}
    held = (_Registered(agent, 1, errors, set()), _Writing(agent, 1, "moving", errors))
    for each in held:
        with pytest.raises(EngineError, match=r"^nixl: .*: lost the device"):
            each.release()
        each.release()


def test_a_library_that_nixl_lacks_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> ModuleType:
        raise ImportError("libcudart.so.12: cannot open shared object file", name=name)

    monkeypatch.setattr("kvproto.transfer.engines.nixl_engine.import_module", lacking)
    with pytest.raises(EngineUnavailable, match=r"^nixl: nixl_cu12 cannot be imported: libcudart"):
        NixlEngine()


def test_nixl_itself_closes_under_a_write_that_is_kept() -> None:
    here, there = Side("nixl", 1), Side("nixl", 2)
    here.engine.connect(there.engine.metadata())
    write = here.engine.write(there.engine.name, here.blocks((0, 9)), there.blocks((0, 9)), b"")
    here.engine.close()
    here.engine.close()
    write.release()
    there.engine.close()
