"""Copies by the processor, within one machine: for tests, and where no transfer engine is.

To an engine of this process it is a `memmove`; to one of another process it is Linux's
`process_vm_writev`, which the kernel allows among processes that may debug each other, and
notifications are datagrams between sockets. The bytes of a write have moved when it returns.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .blocks import check_blocks, check_registered, spans_table
from .cross_memory import started, write_across
from .engine import Blocks, EngineError, Span, WriteState

__all__ = ["LocalEngine"]

_LARGEST_NOTIFICATION = 1 << 16
_LONGEST_NAME = 64
_HERE: dict[str, LocalEngine] = {}
"""The engines of this process, which are told without a socket."""
if hasattr(os, "register_at_fork"):  # those of the process that was forked are not here
    os.register_at_fork(after_in_child=_HERE.clear)


@dataclass(frozen=True, slots=True)
class _Peer:
    pid: int
    started: str
    spans: Blocks
    arrived: deque[bytes] = field(default_factory=deque[bytes])


class LocalEngine:
    """`TransferEngine` by the processor, within one machine."""

    kind = "local"

    def __init__(self) -> None:
        self.name = f"local-{os.getpid()}-{secrets.token_hex(4)}"
        self._spans: list[Span] = []
        self._peers: dict[str, _Peer] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(_address(self.name))
        self._socket.setblocking(False)
        _HERE[self.name] = self

    def register(self, spans: Sequence[Span], /) -> _Registered:
        self._spans += spans
        return _Registered(self._spans, tuple(spans))

    def metadata(self) -> bytes:
        head = f"{self.kind} {self.name} {os.getpid()} {started(os.getpid())}\n"
        return head.encode() + spans_table(self._spans).tobytes()

    def connect(self, metadata: bytes, /) -> str:
        head, _, spans = metadata.partition(b"\n")
        match head.decode(errors="replace").split(" "):
            case [self.kind, name, pid, began] if pid.isdecimal() and len(spans) % 16 == 0:
                table = np.frombuffer(spans, np.int64).reshape(-1, 2)
                known = self._peers.get(name)
                arrived = known.arrived if known else deque[bytes]()
                self._peers[name] = _Peer(int(pid), began, table, arrived)
                return name
            case _:
                raise EngineError("local engine: what came is no local engine's metadata")

    def disconnect(self, peer: str, /) -> None:
        self._peers.pop(peer, None)

    def write(self, peer: str, local: Blocks, remote: Blocks, notification: bytes, /) -> _Written:
        there = self._known(peer)
        asked = f"local engine: write to {peer}"
        check_blocks(asked, local, remote)
        check_registered(asked, "local", local, spans_table(self._spans))
        check_registered(asked, "remote", remote, there.spans)
        if len(notification) > _LARGEST_NOTIFICATION:
            raise EngineError(f"{asked}: a notification of {len(notification)} bytes is too long")
        if there.pid != os.getpid():
            written = started(there.pid) == there.started and write_across(there.pid, local, remote)
        else:
            written = peer in _HERE and _HERE[peer].take(asked, local, remote)
        return _Written(self, peer, notification) if written else _Written(self, peer, None)

    def take(self, asked: str, local: Blocks, remote: Blocks) -> bool:
        """Copy what another engine of this process writes to what is registered here still.

        :raises EngineError: beginning with `asked`.
        """
        check_registered(asked, "remote", remote, spans_table(self._spans))
        for (source, nbytes), (target, _) in zip(local.tolist(), remote.tolist(), strict=True):
            ctypes.memmove(target, source, nbytes)
        return True

    def notifications(self, peer: str, /) -> list[bytes]:
        there = self._known(peer)
        self._collect()
        came = list(there.arrived)
        there.arrived.clear()
        return came

    def close(self) -> None:
        _HERE.pop(self.name, None)
        self._peers.clear()
        self._spans.clear()
        self._socket.close()

    def tell(self, peer: str, notification: bytes) -> WriteState:
        """Send a notification: `moving` while the peer has no room, `failed` where it is gone."""
        if peer in _HERE:
            _HERE[peer].hear(self.name, notification)
            return "done"
        if self._socket.fileno() < 0:  # closed
            return "failed"
        try:
            self._socket.sendto(f"{self.name}\n".encode() + notification, _address(peer))
        except BlockingIOError:
            return "moving"
        except (ConnectionRefusedError, FileNotFoundError):
            return "failed"
        except OSError as error:
            raise EngineError(f"local engine: notify {peer}: {error}") from error
        return "done"

    def hear(self, peer: str, notification: bytes) -> None:
        """Take a notification; that of an engine that is not connected is dropped."""
        if peer in self._peers:
            self._peers[peer].arrived.append(notification)

    def _known(self, peer: str) -> _Peer:
        if peer not in self._peers:
            raise EngineError(f"local engine: peer {peer} is not connected")
        return self._peers[peer]

    def _collect(self) -> None:
        while True:
            try:
                came = self._socket.recv(_LONGEST_NAME + _LARGEST_NOTIFICATION)
            except BlockingIOError:
                return
            name, _, notification = came.partition(b"\n")
            self.hear(name.decode(errors="replace"), notification)


class _Registered:
    def __init__(self, engines: list[Span], own: tuple[Span, ...]) -> None:
        self._engines, self._own = engines, own

    def release(self) -> None:
        for span in self._own if self._engines else ():  # an engine that was closed has none
            self._engines.remove(span)
        self._own = ()


class _Written:
    """Bytes that have moved, and the notification until it is sent; None where they did not."""

    def __init__(self, engine: LocalEngine, peer: str, notification: bytes | None) -> None:
        self._engine, self._peer, self._notification = engine, peer, notification
        self._state: WriteState = "failed" if notification is None else "moving"
        self.state()

    def state(self) -> WriteState:
        if self._state == "moving" and self._notification is not None:
            self._state = self._engine.tell(self._peer, self._notification)
        return self._state

    def release(self) -> None:
        self._notification = None


def _address(name: str) -> bytes:
    """In the abstract name space, which leaves no files behind."""
    return b"\0kvproto." + name.encode()
