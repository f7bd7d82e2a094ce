"""Mooncake's transfer engine, over TCP: without a metadata server, peer to peer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .blocks import check_blocks, check_registered, spans_table
from .engine import Blocks, EngineError, Span
from .mooncake_library import load_mooncake, quietly
from .mooncake_writes import MooncakeWrite, Outbound

__all__ = ["MooncakeEngine"]


@dataclass(frozen=True, slots=True)
class _Peer:
    scratch: int
    spans: Blocks
    outbound: Outbound
    arrived: deque[bytes] = field(default_factory=deque[bytes])


class MooncakeEngine:
    """`TransferEngine` of one Mooncake engine, whose peers reach it at `host`.

    `write` waits for nothing: polling its state submits blocks, at most 1,024 of them or 32 MiB
    beyond what has landed, so who seldom polls moves as little. The notification goes by a thread
    that is there while the peer is known. `connect` waits for the peer, and `close` for
    a notification that is being sent, as long as Mooncake's own time limits: half a minute where
    the peer stands still. Blocks to such a peer fail a few at a time, each after as long, and what
    the network holds of them then may land when the peer goes on. Whether a notification came
    Mooncake does not say. It prints its errors on stderr, more where `MC_LOG_LEVEL` asks for it.

    :raises EngineUnavailable: where Mooncake, or a library that it needs, is not installed, or does
        not wait for the peer before it calls a write done: before 0.3.12, or by `MC_TCP_PROTO=1`.
    """

    kind = "mooncake"

    def __init__(self, *, host: str = "127.0.0.1", protocol: str = "tcp") -> None:
        with quietly():
            self._module = load_mooncake()
            self._engine: Any = self._module.TransferEngine()
            failed = self._engine.initialize(host, "P2PHANDSHAKE", protocol, "")
        if failed:
            raise EngineError(f"mooncake: no engine at {host} over {protocol}")
        self.name = f"{host}:{self._engine.get_rpc_port()}"
        self._spans: list[Span] = []
        self._peers: dict[str, _Peer] = {}
        self._stopped: list[Outbound] = []  # to peers that are forgotten, and not at rest yet
        # Mooncake notifies of bytes only: a notification is of one byte that goes here.
        self._scratch = np.zeros(64, np.uint8)
        self.register([(self._scratch.ctypes.data, 64)])

    def register(self, spans: Sequence[Span], /) -> _Registered:
        made = _Registered(self)
        for start, nbytes in spans:
            if not nbytes:
                continue
            if self._engine.register_memory(start, nbytes):
                made.release()
                raise EngineError(f"mooncake: {nbytes} bytes at {start:#x} cannot be registered")
            self._spans.append((start, nbytes))
            made.spans.append((start, nbytes))
        return made

    def unregister(self, span: Span) -> None:
        """Withdraw what `register` made known; nothing where the engine is closed.

        :raises EngineError: where Mooncake does not let go of it.
        """
        if self._engine is None:
            return
        self._spans.remove(span)
        if self._engine.unregister_memory(span[0]):
            raise EngineError(f"mooncake: {span[1]} bytes at {span[0]:#x} cannot be withdrawn")

    def metadata(self) -> bytes:
        head = f"{self.kind} {self.name} {self._scratch.ctypes.data}\n"
        return head.encode() + spans_table(self._spans).tobytes()

    def connect(self, metadata: bytes, /) -> str:
        head, _, spans = metadata.partition(b"\n")
        match head.decode(errors="replace").split(" "):
            case [self.kind, name, scratch] if scratch.isdecimal() and len(spans) % 16 == 0:
                self._reach(name, int(scratch))
                table = np.frombuffer(spans, np.int64).reshape(-1, 2)
                self._peers[name] = replace(self._peer(name, int(scratch)), spans=table)
                return name
            case _:
                raise EngineError("mooncake: what came is no Mooncake engine's metadata")

    def disconnect(self, peer: str, /) -> None:
        if peer in self._peers:
            outbound = self._peers.pop(peer).outbound
            outbound.stop()
            self._stopped = [each for each in (*self._stopped, outbound) if not each.is_at_rest()]

    def write(
        self, peer: str, local: Blocks, remote: Blocks, notification: bytes, /
    ) -> MooncakeWrite:
        asked, there = f"mooncake: write to {peer}", self._known(peer)
        check_blocks(asked, local, remote)
        check_registered(asked, "local", local, spans_table(self._spans))
        check_registered(asked, "remote", remote, there.spans)
        return there.outbound.write(local, remote, notification)

    def notifications(self, peer: str, /) -> list[bytes]:
        there = self._known(peer)
        for each in self._engine.get_notifies():
            if each.name in self._peers:
                self._peers[each.name].arrived.append(bytes.fromhex(each.msg))
        came = list(there.arrived)
        there.arrived.clear()
        return came

    def close(self) -> None:
        for peer in list(self._peers):
            self.disconnect(peer)
        for each in self._stopped:
            each.close()
        self._stopped.clear()
        self._engine = None  # its threads and registrations end with it

    def _known(self, peer: str) -> _Peer:
        if peer not in self._peers:
            raise EngineError(f"mooncake: peer {peer} is not connected")
        return self._peers[peer]

    def _reach(self, name: str, scratch: int) -> None:
        """Have Mooncake shake hands now: the first block would wait for it."""
        if self._engine.transfer_sync_write(name, self._scratch.ctypes.data, scratch, 1):
            raise EngineError(f"mooncake: connect: {name} does not answer")

    def _peer(self, name: str, scratch: int) -> _Peer:
        """The one that is known, or a new one, also where another has come to its port."""
        known = self._peers.get(name)
        if known is not None and known.scratch == scratch:
            return known
        self.disconnect(name)
        tell = partial(self._tell, name, scratch)
        return _Peer(scratch, spans_table([]), Outbound(self._engine, name, tell))

    def _tell(self, peer: str, scratch: int, notification: bytes) -> bool:
        notify = self._module.TransferNotify(self.name, notification.hex())
        write = self._module.TransferOpcode.Write
        own = self._scratch.ctypes.data
        return not self._engine.transfer_sync(peer, own, scratch, 1, write, notify)


class _Registered:
    def __init__(self, engine: MooncakeEngine) -> None:
        self._engine = engine
        self.spans: list[Span] = []

    def release(self) -> None:
        while self.spans:
            self._engine.unregister(self.spans.pop())
