"""A receiver of several senders sees a page once all of them have brought their part of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvproto.reference import MHALeaf
from kvproto.transfer import describe
from kvproto.transfer.demo.pools import DemoPool
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import Receiver, Sender, TransferError, register_pools
from tests.transfer.pools import fill, snapshot
from tests.transfer.sessions import LINGER, Side, linked


def stage(owner: str, seed: int, first: int) -> Side:
    """Layers `first` and `first + 1` of the pool that `Side.of` makes."""
    whole = Side.of("mha", owner, seed, LocalEngine())
    leaf = MHALeaf(
        size=12 * 16,
        page_size=16,
        dtype=torch.bfloat16,
        head_num=8,
        head_dim=128,
        layer_num=2,
        device="cpu",
        start_layer=first,
    )
    fill(leaf, seed)
    manifest = describe(leaf, owner=owner)
    engine = LocalEngine()
    register_pools(engine, manifest)
    whole.engine.close()
    return Side(DemoPool(leaf, whole.held.allocator), manifest, engine)


def both() -> tuple[list[Side], Side, list[Sender], Receiver]:
    decode = Side.of("mha", "decode", 9, LocalEngine())
    stages = [stage("stage-0", 1, 0), stage("stage-1", 2, 2)]
    ends = [linked(each, decode) for each in stages]
    senders = [Sender(end[0], linger=LINGER) for end in ends]
    return stages, decode, senders, Receiver([end[1] for end in ends], linger=LINGER)


def close(*sides: Any) -> None:
    for each in sides:
        each.close()


def test_a_page_is_seen_after_both_stages() -> None:
    stages, decode, senders, receiver = both()
    receiving = receiver.receive("request", decode.reserve())
    sources = [each.pages() for each in stages]
    senders[1].send("request", sources[1])
    for _ in range(30):
        senders[1].poll()
        receiver.poll()
    assert receiving.state == "moving"
    senders[0].send("request", sources[0])
    while not receiving.is_settled:
        senders[0].poll()
        receiver.poll()
    target = receiving.take().pages["full"]
    (keys, values), held = snapshot(decode.manifest), [snapshot(each.manifest) for each in stages]
    for at, (own, source) in enumerate(zip(held, sources, strict=True)):
        for layer in range(2):
            for now, sent in ((keys, own[0]), (values, own[1])):
                assert np.array_equal(now[2 * at + layer][target], sent[layer][source["full"]])
    close(*senders, receiver)


def test_a_stage_that_goes_fails_the_transfer_and_the_other_stage_is_waited_for() -> None:
    stages, decode, senders, receiver = both()
    free = decode.free()
    receiving = receiver.receive("request", decode.reserve())
    senders[0].close()
    with pytest.raises(TransferError, match="request with stage-0, moving: connection "):
        receiver.wait(receiving)
    receiver.poll()
    assert decode.free() < free  # stage-1 was asked to write there, and has not answered
    while not receiving.is_settled:
        senders[1].poll()
        receiver.poll()
    assert decode.free() == free
    assert stages[1].pages()
    close(senders[1], receiver)
