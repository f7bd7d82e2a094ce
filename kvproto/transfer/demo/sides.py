"""The two processes of the demo: each has an engine and, one after another, pools of each kind."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from multiprocessing.connection import Connection
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..engines.engine import EngineError, Registration, TransferEngine
from ..engines.open_engine import EngineKind, open_engine
from ..manifests.describe import describe
from ..planning.descriptors import Descriptors, descriptors
from ..session.link import Link, open_link
from ..session.messages import Part, Role, encode
from ..session.polling import until
from ..session.receiver import Receiver
from ..session.register import register_pools
from ..session.reservation import Reservation, reserve
from ..session.sender import Sender
from ..session.transfer_error import OutOfPages, TransferError
from .pools import DemoPool, DemoPoolKind, build_demo_pool
from .rows import digest_of_rows, fill_at_random

__all__ = [
    "DemoFailure",
    "DemoOptions",
    "DemoResult",
    "Digests",
    "Results",
    "Round",
    "decode",
    "prefill",
]

Digests: TypeAlias = "Connection[str, str]"
Results: TypeAlias = "Connection[DemoResult | DemoFailure, DemoResult | DemoFailure]"

_LAST = "last"
"""Asked for while the last round's bare write goes, so that the receiver stays until then."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What both processes are told."""

    kinds: tuple[DemoPoolKind, ...]
    engine: EngineKind
    pages: int
    page_size: int
    layers: int
    rounds: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds for the same bytes: by a session, by its engine alone, within a process."""

    session: float
    engine: float
    memcpy: float


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Of one kind: what moved, in how many blocks, and how long each round took."""

    kind: DemoPoolKind
    nbytes: int
    blocks: int
    rounds: tuple[Round, ...]

    @property
    def best(self) -> Round:
        """The least of each."""
        return Round(*map(min, zip(*map(astuple, self.rounds), strict=True)))


@dataclass(frozen=True, slots=True)
class DemoFailure:
    """Why a process ended before it was done, and when by the clock that both have."""

    line: str
    at: float


def prefill(
    options: DemoOptions, peers: Sequence[socket.socket], digests: Digests, results: Results
) -> None:
    """Fill pools, send their pages, and say what that took; a line where it cannot."""
    try:
        with closing(open_engine(options.engine)) as engine:
            for kind, peer in zip(options.kinds, peers, strict=True):
                results.send(_prefill(options, engine, kind, peer, digests))
    except (EngineError, TransferError, OutOfPages, ValueError) as error:
        results.send(DemoFailure(str(error), time.monotonic()))


def decode(
    options: DemoOptions, peers: Sequence[socket.socket], digests: Digests, results: Results
) -> None:
    """Receive pages of each kind, and hold what the rows are against the sender's digest."""
    try:
        with closing(open_engine(options.engine)) as engine:
            for kind, peer in zip(options.kinds, peers, strict=True):
                _decode(options, engine, kind, peer, digests)
    except (EngineError, TransferError, OutOfPages, ValueError) as error:
        results.send(DemoFailure(str(error), time.monotonic()))


def _prefill(
    options: DemoOptions,
    engine: TransferEngine,
    kind: DemoPoolKind,
    peer: socket.socket,
    digests: Digests,
) -> DemoResult:
    held, registration, link = _linked(options, engine, kind, peer, "sender")
    taken = _reserved(options, held)
    sender = Sender(link)
    digests.send(digest_of_rows(held, taken))
    _, blocks = _send(options, sender, taken, "0")  # of which the receiver looks at every row
    source = np.ones(int(blocks.local[:, 1].sum()), np.uint8)
    target = np.zeros_like(source) + source
    rounds: list[Round] = []
    for at in range(1, options.rounds + 1):
        _asked(sender, str(at))  # the receiver waits meanwhile
        if at % 2:  # each is as often the first, which finds other caches
            alone = _engine_alone(link, blocks)
            session, _ = _send(options, sender, taken, str(at))
        else:
            session, _ = _send(options, sender, taken, str(at))
            alone = _engine_alone(link, blocks)
        rounds.append(Round(session, alone, _memcpy(source, target)))
    _send(options, sender, taken, _LAST)
    until(sender.poll, lambda: link.exchange.ended is not None)
    sender.close()
    registration.release()
    nbytes = int(blocks.local[:, 1].sum())
    return DemoResult(kind, nbytes, len(blocks.local), tuple(rounds))


def _asked(sender: Sender, key: str) -> None:
    until(sender.poll, lambda: key in sender.asked or sender.link.exchange.ended is not None)


def _send(
    options: DemoOptions, sender: Sender, taken: Reservation, key: str
) -> tuple[float, Descriptors]:
    """Seconds of a session's transfer, once it is asked for, and what it moved."""
    _asked(sender, key)
    begin = time.perf_counter()
    sending = sender.send(key, taken.pages, timeout=options.timeout)
    sender.wait(sending)
    seconds = time.perf_counter() - begin
    return seconds, descriptors(sender.link.plan, sending.pages)


def _engine_alone(link: Link, blocks: Descriptors) -> float:
    """The same bytes by one bare write, whose notification the receiver drops."""
    begin = time.perf_counter()
    write = link.engine.write(link.peer, *blocks, encode(Part(0, 0, "full", 0, 1, 0, 1)))
    until(lambda: None, lambda: write.state() != "moving")
    seconds = time.perf_counter() - begin
    write.release()
    return seconds


def _memcpy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> float:
    begin = time.perf_counter()
    np.copyto(target, source)
    return time.perf_counter() - begin


def _decode(
    options: DemoOptions,
    engine: TransferEngine,
    kind: DemoPoolKind,
    peer: socket.socket,
    digests: Digests,
) -> None:
    held, registration, link = _linked(options, engine, kind, peer, "receiver")
    receiver = Receiver([link])
    for key in (*map(str, range(options.rounds + 1)), _LAST):
        receiving = receiver.receive(key, lambda: _reserved(options, held), timeout=options.timeout)
        taken = receiver.wait(receiving)
        if key == "0" and digest_of_rows(held, taken) != digests.recv():
            raise TransferError("rows differ", peer=link.owner, phase="moving", key=kind)
        taken.free()
    receiver.close()
    registration.release()


def _linked(
    options: DemoOptions,
    engine: TransferEngine,
    kind: DemoPoolKind,
    peer: socket.socket,
    role: Role,
) -> tuple[DemoPool, Registration, Link]:
    """A pool of random bytes, other ones on each side, and the link to the peer's."""
    held = build_demo_pool(
        kind, pages=2 * options.pages, page_size=options.page_size, layers=options.layers
    )
    manifest = describe(held.pool, owner="prefill" if role == "sender" else "decode")
    fill_at_random(manifest, seed=1 if role == "sender" else 2)
    registration = register_pools(engine, manifest)
    link = open_link(engine, manifest, peer, role=role, timeout=options.timeout)
    return held, registration, link


def _reserved(options: DemoOptions, held: DemoPool) -> Reservation:
    tokens = options.pages * options.page_size
    return reserve(held.allocator, tokens, state_allocator=held.state_allocator)
