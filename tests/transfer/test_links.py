"""A link is one sender's and one receiver's, and an engine has one to a peer at a time."""

from __future__ import annotations

import socket

import pytest

from kvproto.transfer import EngineError, encode_manifest
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import Receiver, Sender, TransferError, open_link
from kvproto.transfer.session.messages import SESSION_VERSION, Hello, encode
from tests.transfer.sessions import LINGER, Session, Side, linked, session, spin


def test_a_link_is_not_given_to_a_second_receiver_or_sender() -> None:
    with session() as made:
        with pytest.raises(ValueError, match="the link to prefill has a receiver already"):
            Receiver(made.receiver.links)
        with pytest.raises(ValueError, match="the link to decode has a sender already"):
            Sender(made.sender.link)
        with pytest.raises(ValueError, match="the link to prefill was opened as a receiver's"):
            Sender(made.receiver.links[0])


def test_transfers_are_numbered_by_the_link() -> None:
    with session() as made:
        made.receiver.links[0].transfers = 41
        assert made.receiver.receive("request", made.decode.reserve()).number == 42
        assert made.receiver.receive("next", made.decode.reserve()).number == 43


def sides() -> tuple[Side, Side]:
    return Side.of("mha", "prefill", 1, LocalEngine()), Side.of("mha", "decode", 2, LocalEngine())


def used(prefill: Side, decode: Side) -> Session:
    one, other = linked(prefill, decode)
    return Session(prefill, decode, Sender(one, linger=LINGER), Receiver([other], linger=LINGER))


def test_a_peer_that_was_lost_is_linked_again_after_the_old_link_is_closed() -> None:
    prefill, decode = sides()
    old = used(prefill, decode)
    old.sender.link.exchange._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(TransferError) as raised:
        linked(prefill, decode)
    assert f"has a link to {decode.engine.name}: close its sender or receiver first" in str(
        raised.value
    )
    old.sender.close()
    old.receiver.close()
    new = used(prefill, decode)
    old.sender.close()
    old.receiver.close()
    old.receiver.poll()
    receiving = new.receiver.receive("request", decode.reserve())
    spin(new, receiving, new.sender.send("request", prefill.pages()))
    receiving.take().free()
    new.sender.close()
    new.receiver.close()


class Failing(LocalEngine):
    """Fails in a way of its own, once it knows the peer."""

    def connect(self, metadata: bytes, /) -> str:
        raise ZeroDivisionError("modulo by zero")


@pytest.mark.parametrize(
    ("engine", "why"), [(LocalEngine, "no answer in time"), (Failing, "modulo by zero")]
)
def test_a_handshake_that_fails_tells_the_peer_and_leaves_nothing(
    engine: type[LocalEngine], why: str
) -> None:
    prefill, decode = Side.of("mha", "prefill", 1, engine()), sides()[1]
    here, there = socket.socketpair()
    manifest = encode_manifest(decode.manifest)
    said = encode(
        Hello(SESSION_VERSION, "receiver", 1, "local", decode.engine.metadata(), manifest)
    )
    there.sendall(len(said).to_bytes(4, "big") + said)
    with pytest.raises(TransferError, match=f"session with decode, handshake: {why}"):
        open_link(prefill.engine, prefill.manifest, here, role="sender", timeout=0.1)
    came = there.recv(1 << 20)
    assert b"Refused" in came
    assert why.encode() in came
    assert not there.recv(1)
    there.close()
    with pytest.raises(EngineError, match="is not connected"):
        prefill.engine.notifications(decode.engine.name)
