"""What kvproto asks of a transfer engine: bytes written to a peer by address, and told of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Blocks",
    "EngineError",
    "EngineUnavailable",
    "Registration",
    "Span",
    "TransferEngine",
    "Write",
    "WriteState",
]

Span: TypeAlias = tuple[int, int]
"""`(start, length)` in bytes."""

Blocks: TypeAlias = NDArray[np.int64]
"""`[n, 2]`: address and length in bytes, as `descriptors` gives them for either end."""

WriteState: TypeAlias = Literal["moving", "done", "failed"]


class EngineError(RuntimeError):
    """The engine refused or lost something: which engine, what was asked, of which peer."""


class EngineUnavailable(EngineError):
    """The engine is not installed here: what is missing, and how to install it."""


class Registration(Protocol):
    """Memory that peers may write to, until it is released."""

    def release(self) -> None:
        """Withdraw it; once is enough. No write may be moving to or from it."""
        ...


class Write(Protocol):
    """Bytes on their way to a peer. The local bytes must stay as they are while it is moving."""

    def state(self) -> WriteState:
        """Where it is; also what drives it on, for engines without a thread of their own.

        `done`: every byte is at the peer, and the notification is sent after the last of them.
        `failed`: the peer may have got any part, and gets no notification.
        """
        ...

    def release(self) -> None:
        """Forget it. One that is moving is given up, but its bytes may still land for a while.

        :raises EngineError: where the engine refuses to; it is not asked again.
        """
        ...


class TransferEngine(Protocol):
    """Can bytes be written into the memory of another process?

    One thread at a time calls an engine and what it returned. Nothing here waits for a peer but
    `connect`, and `close` where the engine says so; a `write` by the processor takes as long as
    its bytes. A peer is known by the name that `connect` returned, the same on both sides' engines
    as the peer's own `name`.
    """

    @property
    def kind(self) -> str:
        """Which engine it is: peers must use the same one."""
        ...

    @property
    def name(self) -> str:
        """What peers call this side; no two engines have the same."""
        ...

    def register(self, spans: Sequence[Span], /) -> Registration:
        """Let peers write to these bytes, and let them be written from.

        :raises EngineError: for memory that cannot be registered.
        """
        ...

    def metadata(self) -> bytes:
        """What a peer's `connect` needs; taken after `register`, and again after more of it."""
        ...

    def connect(self, metadata: bytes, /) -> str:
        """Know a peer, or know of what it registered since; returns its name.

        :raises EngineError: for bytes that are not another engine's metadata.
        """
        ...

    def disconnect(self, peer: str, /) -> None:
        """Forget a peer and what it has sent; nothing is written to it afterwards.

        The peer's own writes to this side are not stopped: only its end, or its word, does that.
        """
        ...

    def write(self, peer: str, local: Blocks, remote: Blocks, notification: bytes, /) -> Write:
        """Copy block `i` of `local` to block `i` of `remote`, then notify the peer, once.

        Blocks of a pair have the same length; without blocks it is a notification alone.

        :raises EngineError: for a peer that is not known, or memory that is not registered.
        """
        ...

    def notifications(self, peer: str, /) -> list[bytes]:
        """What came from a peer since the last call, in the order of arrival of each write."""
        ...

    def close(self) -> None:
        """Let go of peers, memory and threads; once is enough."""
        ...
