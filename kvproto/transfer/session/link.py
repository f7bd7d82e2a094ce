"""Two processes that agreed: an engine that knows the peer, messages with it, and the plan."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from ..engines.engine import TransferEngine
from ..manifests.manifest import PoolManifest
from ..manifests.message import decode_manifest, encode_manifest
from ..planning.negotiate import negotiate
from ..planning.plan import TransferPlan
from .exchange import Exchange
from .messages import SESSION_VERSION, Accepted, Hello, Message, Refused, Role
from .processes import this_process
from .steps import Steps, steps_of
from .transfer_error import TransferError

__all__ = ["Link", "open_link"]

_UNKNOWN = "a peer without a name"


class _Mismatch(ValueError):
    """What peers must have in common beside their pools."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Link:
    """One peer, over one engine. `plan` writes where this side is the sender, else reads.

    `session` numbers it at this side, `their_session` at the peer, whose process is `process`.
    `transfers` is the last number of a transfer over it: none is used twice. `dropped` counts
    notifications that were of no transfer under way: late, repeated, or of an earlier session.
    """

    engine: TransferEngine
    exchange: Exchange
    role: Role
    peer: str
    owner: str
    session: int
    their_session: int
    process: str
    plan: TransferPlan
    steps: Steps
    transfers: int = 0
    dropped: int = 0
    is_taken: bool = False

    def take(self, role: Role) -> None:
        """Be one sender's, or one receiver's, until it is closed.

        :raises ValueError: where another has it, or for the other side's role.
        """
        if self.role != role:
            raise ValueError(f"the link to {self.owner} was opened as a {self.role}'s")
        if self.is_taken:
            raise ValueError(f"the link to {self.owner} has a {role} already: open a new one")
        self.is_taken = True

    def close(self) -> None:
        """End the messages, and have the engine forget the peer; once is enough.

        :raises EngineError: from the engine, which may know the peer still.
        """
        self.exchange.close()
        if _LIVE.get((self.engine.name, self.peer)) is self:
            del _LIVE[self.engine.name, self.peer]
            self.engine.disconnect(self.peer)


_LIVE: WeakValueDictionary[tuple[str, str], Link] = WeakValueDictionary()
"""Links that were not closed, by the names of the engine and of its peer."""


def open_link(
    engine: TransferEngine,
    manifest: PoolManifest,
    connection: socket.socket,
    *,
    role: Role,
    timeout: float = 30.0,
) -> Link:
    """Agree with the process at the other end of a socket, or say why not, to both.

    The manifest's memory is registered with the engine already. An engine has one link to a peer
    at a time: one that was lost is closed before the next is opened. Nothing is left behind where
    it fails: the peer is told why, the socket is closed and the engine does not know the peer.

    :raises TransferError: naming the peer: another version, a manifest that is corrupt or of
        another version, every field in which pools differ, another engine, one that has a link to
        this peer, a peer that went, or `timeout` seconds without an answer.
    """
    exchange = Exchange(connection)
    end = time.monotonic() + timeout
    link: Link | None = None
    try:
        with _naming(_UNKNOWN):
            mine = _hello(engine, manifest, role)
        theirs = _greeted(exchange, mine, end)
        link = _agreed(exchange, engine, manifest, mine, theirs)
        exchange.send(Accepted())
        _answered(exchange, link.owner, end)
    except BaseException as error:
        exchange.send(Refused(_lines(error)))
        (link or exchange).close()
        raise
    return link


@contextmanager
def _naming(owner: str) -> Generator[None]:
    """Whatever is wrong here, or with what came, is of this peer's session."""
    try:
        yield
    except Exception as error:
        raise _failed(owner, str(error) or type(error).__name__) from error


def _lines(error: BaseException) -> tuple[str, ...]:
    told = error.reason if isinstance(error, TransferError) else type(error).__name__
    return tuple(told.splitlines())


def _hello(engine: TransferEngine, manifest: PoolManifest, role: Role) -> Hello:
    return Hello(
        version=SESSION_VERSION,
        role=role,
        session=secrets.randbits(63),
        engine=engine.kind,
        metadata=engine.metadata(),
        manifest=encode_manifest(manifest),
        process=this_process(),
    )


def _greeted(exchange: Exchange, mine: Hello, end: float) -> Hello:
    exchange.send(mine)
    came = _next(exchange, _UNKNOWN, end)
    if not isinstance(came, Hello):
        raise _failed(_UNKNOWN, f"a {type(came).__name__} came where Hello belongs")
    return came


def _agreed(
    exchange: Exchange,
    engine: TransferEngine,
    manifest: PoolManifest,
    mine: Hello,
    theirs: Hello,
) -> Link:
    """The link, which the engine knows from here on; or both are told why not."""
    with _naming(_UNKNOWN):
        remote = decode_manifest(theirs.manifest)
    owner = remote.owner or _UNKNOWN
    with _naming(owner):
        _check_ends(mine, theirs)
        plan = negotiate(manifest, remote, direction="write" if mine.role == "sender" else "read")
        steps = steps_of(plan)
        link = Link(
            engine=engine,
            exchange=exchange,
            role=mine.role,
            peer=_connected(engine, theirs),
            owner=owner,
            session=mine.session,
            their_session=theirs.session,
            process=theirs.process,
            plan=plan,
            steps=steps,
        )
    _LIVE[engine.name, link.peer] = link
    return link


def _connected(engine: TransferEngine, theirs: Hello) -> str:
    peer = engine.connect(theirs.metadata)
    if (engine.name, peer) in _LIVE:
        raise _Mismatch(f"{engine.name} has a link to {peer}: close its sender or receiver first")
    return peer


def _check_ends(mine: Hello, theirs: Hello) -> None:
    if mine.role == theirs.role:
        raise _Mismatch(f"both sides are the {mine.role}")
    if mine.engine != theirs.engine:
        raise _Mismatch(f"engine: {mine.engine} here, {theirs.engine} there")


def _answered(exchange: Exchange, owner: str, end: float) -> None:
    came = _next(exchange, owner, end)
    if not isinstance(came, Accepted):
        raise _failed(owner, f"a {type(came).__name__} came where Accepted belongs")


def _next(exchange: Exchange, owner: str, end: float) -> Message:
    while True:
        came = exchange.take()
        if isinstance(came, Refused):
            raise _failed(owner, "refused there: " + "\n".join(came.reasons))
        if came is not None:
            return came
        if exchange.ended is not None:
            raise _failed(owner, exchange.ended)
        if (left := end - time.monotonic()) <= 0:
            raise _failed(owner, "no answer in time")
        exchange.wait(left)


def _failed(owner: str, reason: str) -> TransferError:
    return TransferError(reason, peer=owner, phase="handshake")
