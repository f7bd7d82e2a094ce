"""Two processes that agreed: an engine that knows the peer, messages with it, and the plan."""

from __future__ import annotations

import secrets
import socket
import time
from dataclasses import dataclass, field

from ..engines.engine import EngineError, TransferEngine
from ..manifests.manifest import PoolManifest
from ..manifests.message import decode_manifest, encode_manifest
from ..manifests.refusal import ManifestError, NegotiationError
from ..planning.negotiate import negotiate
from ..planning.plan import TransferPlan
from .exchange import Exchange
from .messages import SESSION_VERSION, Accepted, Hello, Message, Refused, Role
from .steps import Steps, steps_of
from .transfer_error import TransferError

__all__ = ["Link", "open_link"]

_UNKNOWN = "a peer without a name"


class _Mismatch(ValueError):
    """What peers must have in common beside their pools."""


@dataclass(slots=True)
class Link:
    """One peer, over one engine. `plan` writes where this side is the sender, else reads.

    `session` numbers it at this side, `their_session` at the peer. `dropped` counts notifications
    that were of no transfer under way: late, repeated, or of an earlier session.
    """

    engine: TransferEngine
    exchange: Exchange
    role: Role
    peer: str
    owner: str
    session: int
    their_session: int
    plan: TransferPlan
    steps: Steps = field(init=False)
    dropped: int = 0

    def __post_init__(self) -> None:
        self.steps = steps_of(self.plan)

    def close(self) -> None:
        """End the messages, and have the engine forget the peer."""
        self.exchange.close()
        self.engine.disconnect(self.peer)


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
    at a time. Nothing is left behind where it fails: the socket is closed.

    :raises TransferError: naming the peer: another version, a manifest that is corrupt or of
        another version, every field in which pools differ, another engine, a peer that went, or
        `timeout` seconds without an answer.
    """
    exchange = Exchange(connection)
    end = time.monotonic() + timeout
    try:
        mine = _hello(engine, manifest, role)
        theirs = _greeted(exchange, mine, end)
        peer, owner, plan = _agreed(exchange, engine, manifest, mine, theirs)
        _answered(exchange, owner, end)
    except BaseException:
        exchange.close()
        raise
    return Link(
        engine=engine,
        exchange=exchange,
        role=role,
        peer=peer,
        owner=owner,
        session=mine.session,
        their_session=theirs.session,
        plan=plan,
    )


def _hello(engine: TransferEngine, manifest: PoolManifest, role: Role) -> Hello:
    return Hello(
        version=SESSION_VERSION,
        role=role,
        session=secrets.randbits(63),
        engine=engine.kind,
        metadata=engine.metadata(),
        manifest=encode_manifest(manifest),
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
) -> tuple[str, str, TransferPlan]:
    """The engine's name of the peer, its owner, and the plan; or both are told why not."""
    owner = _UNKNOWN
    try:
        remote = decode_manifest(theirs.manifest)
        owner = remote.owner or owner
        _check_ends(mine, theirs)
        plan = negotiate(manifest, remote, direction="write" if mine.role == "sender" else "read")
        _check_plan(plan)
        peer = engine.connect(theirs.metadata)
    except (ManifestError, NegotiationError, EngineError, _Mismatch) as error:
        exchange.send(Refused(tuple(str(error).splitlines())))
        raise _failed(owner, str(error)) from error
    exchange.send(Accepted())
    return peer, owner, plan


def _check_ends(mine: Hello, theirs: Hello) -> None:
    if mine.role == theirs.role:
        raise _Mismatch(f"both sides are the {mine.role}")
    if mine.engine != theirs.engine:
        raise _Mismatch(f"engine: {mine.engine} here, {theirs.engine} there")


def _check_plan(plan: TransferPlan) -> None:
    for pair in plan.pairs:
        if pair.is_converted:
            raise _Mismatch(
                f"{pair.pool} {pair.space} {pair.name}: the layouts differ, and a session brings "
                "pages to their places as they are; describe() without conversion, or convert them"
            )


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
