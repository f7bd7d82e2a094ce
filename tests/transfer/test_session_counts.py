"""Both sides count otherwise: longer pages, a shorter window, rows of requests, heads."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.protocols import MHALeafRequest, SWAAllocator, SWAComposite, require
from kvproto.reference import PageAllocator
from kvproto.reference.build_any import build_reference
from kvproto.transfer import TransferEngine, describe
from kvproto.transfer.demo.pools import DemoPool
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import (
    Receiver,
    Reservation,
    Sender,
    page_numbers,
    register_pools,
    reserve,
)
from tests.transfer.pools import BUILDERS, fill, snapshot
from tests.transfer.sessions import LINGER, Session, Side, arrived, bytes_of, linked, spin


def joined(prefill: Side, decode: Side) -> Session:
    ends = linked(prefill, decode)
    sender, receiver = Sender(ends[0], linger=LINGER), Receiver([ends[1]], linger=LINGER)
    return Session(prefill, decode, sender, receiver)


def held(pool: Any, owner: str, seed: int, **told: Any) -> Side:
    """A pool that lends its full pages by an allocator of its size."""
    fill(pool, seed)
    engine: TransferEngine = LocalEngine()
    manifest = describe(pool, owner=owner, **told)
    register_pools(engine, manifest)
    size = manifest.pool("target").page_size
    allocator = PageAllocator(pool.size, size, torch.bfloat16, "cpu", pool, need_sort=False)
    return Side(DemoPool(pool, allocator), manifest, engine)


def rows(pool: Any, layer_id: int, slots: Tensor) -> Tensor:
    """Keys and values of tokens, as bytes, through the doors of the pool."""
    found = [pool.get_key_buffer(layer_id)[slots], pool.get_value_buffer(layer_id)[slots]]
    return torch.cat([each.contiguous().view(torch.uint8).flatten(1) for each in found], 1)


def close(*made: Session) -> None:
    for each in made:
        each.sender.close()
        each.receiver.close()


@pytest.mark.parametrize("tokens", [43, 64, 65])
@pytest.mark.parametrize("sizes", [(64, 16), (16, 64)], ids=str)
def test_pages_of_two_lengths_arrive_token_by_token(sizes: tuple[int, int], tokens: int) -> None:
    prefill, decode = (
        Side.of("mha", owner, seed, LocalEngine(), page_size=size, pages=512 // size, layers=2)
        for seed, (owner, size) in enumerate(zip(("prefill", "decode"), sizes, strict=True))
    )
    decode.pages(64)  # so that page numbers differ
    made = joined(prefill, decode)
    source: Reservation = prefill.reserve(tokens)()
    before = snapshot(decode.manifest)
    receiving = made.receiver.receive("request", decode.reserve(tokens))
    spin(made, made.sender.send("request", source.pages), receiving)
    taken = receiving.take()
    for layer in range(2):
        sent = rows(prefill.held.pool, layer, source.slots[:tokens])
        assert torch.equal(rows(decode.held.pool, layer, taken.slots[:tokens]), sent)
    # What is left of the last page of the shorter is written too, and not a byte beside.
    pages = -(-tokens // 16)
    changed = [
        int((now != old).any(1).sum())
        for part, kept in zip(snapshot(decode.manifest), before, strict=True)
        for now, old in zip(part, kept, strict=True)
    ]
    assert changed == [-(-pages // (sizes[1] // 16))] * 4
    beyond = taken.slots[pages * 16 :]
    for layer in range(2):
        kept = before[0][layer].reshape(-1, 8 * 128 * 2)[beyond.numpy()]
        assert (rows(decode.held.pool, layer, beyond)[:, : 8 * 128 * 2].numpy() == kept).all()
    close(made)


@pytest.mark.parametrize(
    ("sizes", "window", "evicted"),
    [
        ((16, 16), 32, 0),  # the sender still has all of the window
        ((16, 16), 32, 64),
        ((64, 16), 36, 64),
        ((16, 64), 20, 80),  # the receiver's first page begins before the window does
        ((16, 64), 32, 0),
    ],
    ids=str,
)
def test_of_a_window_the_tokens_go_that_are_still_in_it(
    sizes: tuple[int, int], window: int, evicted: int
) -> None:
    tokens = 100
    prefill, decode = (
        Side.of("swa", owner, seed, LocalEngine(), page_size=size, pages=768 // size, layers=2)
        for seed, (owner, size) in enumerate(zip(("prefill", "decode"), sizes, strict=True))
    )
    made = joined(prefill, decode)
    allocators = [
        require(side.held.allocator, SWAAllocator, for_="it") for side in (prefill, decode)
    ]
    slots = reserve(allocators[0], tokens).slots
    allocators[0].free_swa(slots[:evicted])
    wanted = partial(reserve, allocators[1], tokens, window_tokens=window)
    receiving = made.receiver.receive("request", wanted)
    spin(made, made.sender.send("request", page_numbers(allocators[0], slots)), receiving)
    taken = receiving.take()
    for name, first in (("full_kv_pool", 0), ("swa_kv_pool", tokens - window)):
        found = []
        for side, allocator, mine in zip(
            (prefill, decode), allocators, (slots, taken.slots), strict=True
        ):
            at = mine[first:tokens]
            if first:
                at = allocator.translate_loc_from_full_to_swa(at)
                assert bool((at > 0).all())
            pair = require(side.held.pool, SWAComposite, for_="it")
            leaf = pair.swa_kv_pool if first else pair.full_kv_pool
            found.append(rows(leaf, 0, at))
        assert torch.equal(*found), name
    close(made)


def test_a_window_that_the_sender_gave_back_is_said_to_be_missing() -> None:
    prefill, decode = (
        Side.of("swa", owner, 1, LocalEngine(), pages=24) for owner in ("prefill", "decode")
    )
    made = joined(prefill, decode)
    allocator = require(prefill.held.allocator, SWAAllocator, for_="it")
    slots = reserve(allocator, 100).slots
    allocator.free_swa(slots[:64])
    receiving = made.receiver.receive("request", decode.reserve(100))
    sending = made.sender.send("request", page_numbers(allocator, slots))
    spin(made, sending, receiving)
    assert "window: 3 pages are sent, 7 wanted" in str(receiving.error)
    close(made)


@pytest.mark.parametrize("name", ["dsa-pooled-page16-tails-shared", "rings-page4-uneven"])
def test_what_a_pool_keeps_by_the_row_of_a_request_goes_along(name: str) -> None:
    prefill, decode = (
        held(BUILDERS[f"reference-{name}"](), owner, seed)
        for seed, owner in enumerate(("prefill", "decode"))
    )
    made, allocator = joined(prefill, decode), decode.held.allocator
    before = bytes_of(made)
    source = reserve(prefill.held.allocator, 12, request_row=2)
    wanted = partial(reserve, allocator, 12, request_row=1)
    receiving = made.receiver.receive("request", wanted)
    spin(made, made.sender.send("request", source.pages), receiving)
    target = receiving.take().pages
    assert target["request"].tolist() == [1]
    arrived(before, made, source.pages, target)
    close(made)


def test_a_page_is_seen_after_both_ranks_have_brought_their_heads() -> None:
    def pool(heads: int) -> Any:
        return build_reference(
            MHALeafRequest(
                size=12 * 16,
                page_size=16,
                dtype=torch.bfloat16,
                head_num=heads,
                head_dim=16,
                layer_num=2,
                device="cpu",
            )
        )

    decode = held(pool(4), "decode", 9, heads=range(4))
    ranks = [held(pool(2), f"rank-{at}", at, heads=range(2 * at, 2 * at + 2)) for at in range(2)]
    ends = [linked(each, decode) for each in ranks]
    senders = [Sender(end[0], linger=LINGER) for end in ends]
    receiver = Receiver([end[1] for end in ends], linger=LINGER)
    decode.pages(32)  # so that page numbers differ
    receiving = receiver.receive("request", decode.reserve())
    sources = [each.reserve()() for each in ranks]
    for sender, source in zip(senders, sources, strict=True):
        assert receiving.state == "moving"
        sending = sender.send("request", source.pages)
        while not sending.is_settled:
            sender.poll()
            receiver.poll()
        receiver.poll()
    taken = receiving.take()
    for layer in range(2):
        for read in ("get_key_buffer", "get_value_buffer"):
            got = getattr(decode.held.pool, read)(layer)[taken.slots[: taken.tokens]]
            parts = [
                getattr(rank.held.pool, read)(layer)[source.slots[: source.tokens]]
                for rank, source in zip(ranks, sources, strict=True)
            ]
            sent = torch.cat(parts, 1)
            assert torch.equal(got.view(torch.uint8), sent.view(torch.uint8))
    for sender in senders:
        sender.close()
    receiver.close()
