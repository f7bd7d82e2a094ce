"""Mooncake's transfer engine, over TCP: without a metadata server, peer to peer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from .blocks import check_blocks, check_registered, spans_table
from .engine import Blocks, EngineError, EngineUnavailable, Span, WriteState

__all__ = ["MooncakeEngine"]

_INSTALL = (
    "pip install mooncake-transfer-engine-non-cuda, and on Debian "
    "apt-get install libibverbs1 librdmacm1 libnuma1"
)
_LOG_LEVEL = "MC_LOG_LEVEL"


@dataclass(frozen=True, slots=True)
class _Peer:
    scratch: int
    spans: Blocks
    arrived: deque[bytes] = field(default_factory=deque[bytes])


class MooncakeEngine:
    """`TransferEngine` of one Mooncake engine, whose peers reach it at `host`.

    A write is done, or has failed, when `write` returns: it blocks the calling thread, and nothing
    here bounds how long a peer that stalls can hold it, only Mooncake's own time limits. So poll
    sessions over it on a thread of their own, and never on the one that schedules batches. Mooncake
    prints its errors on stderr, and more where `MC_LOG_LEVEL` asks for it.

    :raises EngineUnavailable: where Mooncake, or a library that it needs, is not installed.
    """

    kind = "mooncake"

    def __init__(self, *, host: str = "127.0.0.1", protocol: str = "tcp") -> None:
        with _quiet():
            self._module = _mooncake()
            self._engine: Any = self._module.TransferEngine()
            failed = self._engine.initialize(host, "P2PHANDSHAKE", protocol, "")
        if failed:
            raise EngineError(f"mooncake: no engine at {host} over {protocol}")
        self.name = f"{host}:{self._engine.get_rpc_port()}"
        self._spans: list[Span] = []
        self._peers: dict[str, _Peer] = {}
        # Mooncake notifies of bytes only: a notification alone is of one byte that goes here.
        self._scratch = np.zeros(64, np.uint8)
        self.register([(self._scratch.ctypes.data, 64)])

    def register(self, spans: Sequence[Span], /) -> _Registered:
        for at, (start, nbytes) in enumerate(spans):
            if self._engine.register_memory(start, nbytes):
                _Registered(self._engine, self._spans, spans[:at]).release()
                raise EngineError(f"mooncake: {nbytes} bytes at {start:#x} cannot be registered")
            self._spans.append((start, nbytes))
        return _Registered(self._engine, self._spans, spans)

    def metadata(self) -> bytes:
        head = f"{self.kind} {self.name} {self._scratch.ctypes.data}\n"
        return head.encode() + spans_table(self._spans).tobytes()

    def connect(self, metadata: bytes, /) -> str:
        head, _, spans = metadata.partition(b"\n")
        match head.decode(errors="replace").split(" "):
            case [self.kind, name, scratch] if scratch.isdecimal() and len(spans) % 16 == 0:
                table = np.frombuffer(spans, np.int64).reshape(-1, 2)
                known = self._peers.get(name)
                arrived = known.arrived if known else deque[bytes]()
                self._peers[name] = _Peer(int(scratch), table, arrived)
                return name
            case _:
                raise EngineError("mooncake: what came is no Mooncake engine's metadata")

    def disconnect(self, peer: str, /) -> None:
        self._peers.pop(peer, None)

    def write(self, peer: str, local: Blocks, remote: Blocks, notification: bytes, /) -> _Written:
        asked, there = f"mooncake: write to {peer}", self._known(peer)
        check_blocks(asked, local, remote)
        check_registered(asked, "local", local, spans_table(self._spans))
        check_registered(asked, "remote", remote, there.spans)
        if not len(local):
            local = np.array([(self._scratch.ctypes.data, 1)], np.int64)
            remote = np.array([(there.scratch, 1)], np.int64)
        failed = self._engine.batch_transfer_sync(
            peer,
            local[:, 0].tolist(),
            remote[:, 0].tolist(),
            local[:, 1].tolist(),
            self._module.TransferOpcode.Write,
            self._module.TransferNotify(self.name, notification.hex()),
        )
        return _Written("failed" if failed else "done")

    def notifications(self, peer: str, /) -> list[bytes]:
        there = self._known(peer)
        for each in self._engine.get_notifies():
            if each.name in self._peers:
                self._peers[each.name].arrived.append(bytes.fromhex(each.msg))
        came = list(there.arrived)
        there.arrived.clear()
        return came

    def close(self) -> None:
        self._peers.clear()
        self._engine = None  # its threads and registrations end with it

    def _known(self, peer: str) -> _Peer:
        if peer not in self._peers:
            raise EngineError(f"mooncake: peer {peer} is not connected")
        return self._peers[peer]


class _Registered:
    def __init__(self, engine: Any, engines: list[Span], own: Sequence[Span]) -> None:
        self._engine: Any = engine
        self._engines, self._own = engines, tuple(own)

    def release(self) -> None:
        for span in self._own:
            self._engine.unregister_memory(span[0])
            self._engines.remove(span)
        self._engine, self._own = None, ()


@dataclass(frozen=True, slots=True)
class _Written:
    end: WriteState

    def state(self) -> WriteState:
        return self.end

    def release(self) -> None: ...


def _mooncake() -> Any:
    try:
        return import_module("mooncake.engine")
    except ImportError as error:  # also of a library that is not there
        raise EngineUnavailable(f"mooncake: {error}: {_INSTALL}") from error


@contextmanager
def _quiet() -> Generator[None]:
    """Mooncake reads how much to print when it begins; the environment stays as it was."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "ERROR"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]
