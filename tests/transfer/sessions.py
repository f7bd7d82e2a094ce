"""Two sides of a session in one process: real pools and allocators, linked over a socket pair."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kvproto.transfer import IndexSpace, PoolManifest, TransferEngine, describe
from kvproto.transfer.demo.pools import DemoPool, DemoPoolKind, build_demo_pool
from kvproto.transfer.engines.open_engine import ENGINES, EngineKind, open_engine
from kvproto.transfer.session import (
    Link,
    PageNumbers,
    Receiver,
    Sender,
    open_link,
    register_pools,
    reserve,
)
from tests.transfer.pools import fill, snapshot

__all__ = ["LINGER", "Session", "Side", "arrived", "bytes_of", "linked", "session", "spin"]

TOKENS = 3 * 16 - 5
LINGER = 0.1
SECONDS = 60.0
ENGINE: EngineKind = next(
    kind for kind in ENGINES if kind == os.environ.get("KVPROTO_SESSION_ENGINE", "local")
)
"""Of sessions that are given none: `make mooncake` asks for its own."""


@dataclass
class Side:
    """Pools of one process, with their bytes set to numbers of the side's own."""

    held: DemoPool
    manifest: PoolManifest
    engine: TransferEngine

    @classmethod
    def of(
        cls, kind: DemoPoolKind, owner: str, seed: int, engine: TransferEngine, **sizes: int
    ) -> Side:
        asked = {"pages": 12, "page_size": 16, "layers": 4} | sizes
        held = build_demo_pool(kind, **asked)
        fill(held.pool, seed)
        manifest = describe(held.pool, owner=owner)
        register_pools(engine, manifest)
        return cls(held, manifest, engine)

    def reserve(self, tokens: int = TOKENS, *, request_row: int | None = None) -> Any:
        """What `Receiver.receive` calls."""
        return partial(
            reserve,
            self.held.allocator,
            tokens,
            state_allocator=self.held.state_allocator,
            request_row=request_row,
        )

    def pages(self, tokens: int = TOKENS) -> PageNumbers:
        """Pages of this side's own, reserved as a receiver's are."""
        made: PageNumbers = self.reserve(tokens)().pages
        return made

    def free(self) -> tuple[int, ...]:
        """Free slots of every allocator."""
        state = self.held.state_allocator
        return self.held.allocator.available_size(), state.available_size() if state else 0


@dataclass
class Session:
    """A prefill and a decode side."""

    prefill: Side
    decode: Side
    sender: Sender
    receiver: Receiver

    def poll(self) -> None:
        self.sender.poll()
        self.receiver.poll()


def linked(prefill: Side, decode: Side) -> tuple[Link, Link]:
    """Both ends of an agreement; what either raises is raised here."""
    one, other = socket.socketpair()
    with ThreadPoolExecutor(2) as pool:
        sender = pool.submit(open_link, prefill.engine, prefill.manifest, one, role="sender")
        receiver = pool.submit(open_link, decode.engine, decode.manifest, other, role="receiver")
    return sender.result(), receiver.result()


@contextmanager
def session(
    kind: DemoPoolKind = "mha",
    engines: tuple[TransferEngine, TransferEngine] | None = None,
    *,
    sender: dict[str, Any] | None = None,
    receiver: dict[str, Any] | None = None,
    **sizes: int,
) -> Generator[Session]:
    """Both sides with the same kind of pool, closed at the end."""
    one, other = engines or (open_engine(ENGINE), open_engine(ENGINE))
    prefill = Side.of(kind, "prefill", 1, one, **sizes)
    decode = Side.of(kind, "decode", 2, other, **sizes)
    ends = linked(prefill, decode)
    made = Session(
        prefill,
        decode,
        Sender(ends[0], linger=LINGER, **(sender or {})),
        Receiver([ends[1]], linger=LINGER, **(receiver or {})),
    )
    try:
        yield made
    finally:
        made.sender.close()
        made.receiver.close()
        one.close()
        other.close()


def spin(made: Session, *transfers: Any) -> None:
    """Poll both sides until every transfer is settled."""
    end = time.monotonic() + SECONDS
    while not all(each.is_settled for each in transfers):
        assert time.monotonic() < end, [each.state for each in transfers]
        made.poll()


def bytes_of(made: Session) -> tuple[list[list[Any]], list[list[Any]]]:
    """What both sides hold."""
    return snapshot(made.prefill.manifest), snapshot(made.decode.manifest)


def arrived(
    before: tuple[list[list[Any]], list[list[Any]]],
    made: Session,
    source: PageNumbers,
    target: PageNumbers,
) -> None:
    """The target pages hold the source's bytes, and every other byte is what it was."""
    sent, held = before
    after = snapshot(made.decode.manifest)
    for place, each in enumerate(made.decode.manifest.pool("target").regions):
        space: IndexSpace = each.space
        for layer, now in enumerate(after[place]):
            expected = held[place][layer].copy()
            expected[target[space]] = sent[place][layer][source[space]]
            np.testing.assert_array_equal(now, expected, err_msg=f"{each.name}, layer {layer}")
