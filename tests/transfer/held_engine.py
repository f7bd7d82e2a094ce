"""An engine whose writes move when a test says so, for faults in the middle of a transfer."""

from __future__ import annotations

from collections.abc import Sequence

from kvproto.transfer import Blocks, Registration, Span, TransferEngine, Write, WriteState
from kvproto.transfer.engines.local_engine import LocalEngine

__all__ = ["HeldEngine"]


class HeldEngine:
    """An engine that holds every write back: `let_go` moves the oldest, `lose` fails them."""

    def __init__(self, inner: TransferEngine | None = None) -> None:
        self.inner = inner or LocalEngine()
        self.kind, self.name = self.inner.kind, self.inner.name
        self.held: list[_Held] = []
        self.notes: list[bytes] = []

    def register(self, spans: Sequence[Span], /) -> Registration:
        return self.inner.register(spans)

    def metadata(self) -> bytes:
        return self.inner.metadata()

    def connect(self, metadata: bytes, /) -> str:
        return self.inner.connect(metadata)

    def disconnect(self, peer: str, /) -> None:
        self.inner.disconnect(peer)

    def notifications(self, peer: str, /) -> list[bytes]:
        return self.inner.notifications(peer)

    def close(self) -> None:
        self.inner.close()

    def write(self, peer: str, local: Blocks, remote: Blocks, notification: bytes, /) -> Write:
        made = _Held(self.inner, peer, local, remote, notification)
        self.held.append(made)
        self.notes.append(notification)
        return made

    def let_go(self, count: int | None = None) -> None:
        """Move so many of the writes that are held, or all."""
        going, self.held = self.held[:count], self.held[len(self.held[:count]) :]
        for each in going:
            each.go()

    def lose(self) -> None:
        """Fail all writes that are held; nothing of them moves."""
        for each in self.held:
            each.lost = True
        self.held.clear()


class _Held:
    def __init__(
        self, engine: TransferEngine, peer: str, local: Blocks, remote: Blocks, note: bytes
    ) -> None:
        self._arguments = peer, local, remote, note
        self.nbytes = int(local[:, 1].sum())
        self._engine = engine
        self._write: Write | None = None
        self.lost = self.released = False

    def go(self) -> None:
        self._write = self._engine.write(*self._arguments)

    def state(self) -> WriteState:
        if self.lost:
            return "failed"
        return "moving" if self._write is None else self._write.state()

    def release(self) -> None:
        self.released = True
