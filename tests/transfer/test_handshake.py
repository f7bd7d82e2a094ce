"""No link without agreement: what is corrupt, older or of other pools is refused on both sides."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kvproto.transfer import MANIFEST_VERSION, describe, encode_manifest
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import Receiver, TransferError, open_link
from kvproto.transfer.session.messages import SESSION_VERSION, Hello, Wanted, encode
from tests.transfer.pools import BUILDERS
from tests.transfer.sessions import Side, linked
from tests.transfer.test_refusals import REFUSED


def hello(**changed: Any) -> Hello:
    side = Side.of("mha", "decode", 2, LocalEngine())
    whole = Hello(
        version=SESSION_VERSION,
        role="receiver",
        session=1,
        engine="local",
        metadata=side.engine.metadata(),
        manifest=encode_manifest(side.manifest),
    )
    side.engine.close()
    return msgspec.structs.replace(whole, **changed)


def told(*messages: bytes, closed: bool = False) -> tuple[str, bytes]:
    """What opening a link to a peer that sends these bytes raises, and what the peer is sent."""
    here, there = socket.socketpair()
    there.sendall(b"".join(len(m).to_bytes(4, "big") + m for m in messages))
    if closed:
        there.shutdown(socket.SHUT_WR)
    side = Side.of("mha", "prefill", 1, LocalEngine())
    with pytest.raises(TransferError) as raised:
        open_link(side.engine, side.manifest, here, role="sender", timeout=0.2)
    came = there.recv(1 << 20)
    there.close()
    side.engine.close()
    return str(raised.value), came


CORRUPT = encode(
    hello(manifest=encode_manifest(Side.of("mha", "d", 2, LocalEngine()).manifest)[:-9])
)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (encode(hello(manifest=b"\0" * 99)), "message is of kind"),
        (CORRUPT, "message cut off"),
        (encode(hello(role="sender")), "both sides are the sender"),
        (encode(hello(engine="nixl")), "engine: local here, nixl there"),
        (encode(hello(metadata=b"other")), "no local engine's metadata"),
        (encode(hello(version=1)), "session version 1 there, 2 here"),
        (encode(hello(version=7)), "session version 7 there, 2 here"),
        (b"\xff" * 30, "what came is no message of this version"),
        (encode(Wanted(1, "early", 0, {})), "a Wanted came where Hello belongs"),
    ],
)
def test_what_is_no_hello_of_this_version_is_refused(message: bytes, why: str) -> None:
    raised, _ = told(message)
    assert raised.startswith("session with ")
    assert ", handshake: " in raised
    assert why in raised


@pytest.mark.parametrize(("manifest", "age"), [(MANIFEST_VERSION - 1, "older"), (99, "newer")])
def test_a_manifest_of_another_version_is_refused_by_age(manifest: int, age: str) -> None:
    side = Side.of("mha", "decode", 2, LocalEngine())
    other = encode_manifest(replace(side.manifest, version=manifest))
    raised, came = told(encode(hello(manifest=other)))
    assert f"the peer runs an {age} kvproto" in raised or f"a {age}" in raised
    assert b"Refused" in came  # the peer is told as well
    assert age.encode() in came


def test_a_peer_that_goes_or_is_silent_ends_the_handshake_in_time() -> None:
    assert told(closed=True)[0].endswith("handshake: connection closed by the peer")
    assert told()[0].endswith("handshake: no answer in time")
    assert "decode, handshake: no answer in time" in told(encode(hello()))[0]


@pytest.mark.parametrize("name", REFUSED)
def test_both_sides_name_the_field_in_which_pools_differ(name: str) -> None:
    """Every field for which a negotiation refuses."""
    pool, change, field = REFUSED[name]
    whole = replace(describe(BUILDERS[pool]()), owner="prefill")
    engine, ends = LocalEngine(), socket.socketpair()
    with ThreadPoolExecutor(2) as threads:
        sides = [
            threads.submit(open_link, engine, whole, ends[0], role="sender"),
            threads.submit(open_link, engine, change(whole), ends[1], role="receiver"),
        ]
    engine.close()
    for side in sides:
        error = side.exception()
        assert isinstance(error, TransferError)
        assert error.phase == "handshake"
        assert field in error.reason


def test_a_receiver_refuses_to_see_pages_without_a_layer() -> None:
    """A stage has layers 0 and 1 of four."""
    decode = Side.of("mha", "decode", 2, LocalEngine())
    first = Side.of("mha", "stage-0", 1, LocalEngine(), layers=2)
    sender, receiver = linked(first, decode)
    with pytest.raises(ValueError, match=r"no peer sends key of layer 2 \(target pool, full space"):
        Receiver([receiver])
    sender.close()
    receiver.close()
