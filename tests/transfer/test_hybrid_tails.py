"""A hybrid over a leaf with tails: pages, a state slot and a request row go in one transfer."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from kvproto.conformance.state_bench import named_tensors
from kvproto.reference import PageAllocator, StateSlots
from kvproto.transfer import TransferEngine, describe
from kvproto.transfer.demo.pools import DemoPool
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.engines.nixl_engine import NixlEngine
from kvproto.transfer.session import (
    Receiver,
    Reservation,
    Sender,
    page_numbers,
    register_pools,
)
from tests.transfer.pools import BUILDERS, fill
from tests.transfer.sessions import LINGER, Session, Side, arrived, bytes_of, linked

TOKENS, PAGE = 27, 16
SENT_ROW, WANTED_ROW = 3, 1
LATENT_LAYERS, STATE_LAYER = (3, 7), 0
SECONDS = 20.0

engines = pytest.mark.parametrize("engine", [LocalEngine, NixlEngine], ids=["local", "nixl"])


def side(owner: str, seed: int, engine: TransferEngine) -> Side:
    pool = BUILDERS["reference-hybrid-page16-tails"]()
    fill(pool, seed)
    manifest = describe(pool, owner=owner)
    register_pools(engine, manifest)
    allocator = PageAllocator(pool.size, PAGE, torch.bfloat16, "cpu", pool, need_sort=False)
    held = DemoPool(pool, allocator, StateSlots(3, "cpu", strict=True))
    return Side(held, manifest, engine)


@contextmanager
def joined(engine: Callable[[], TransferEngine]) -> Generator[Session]:
    """Two sides, of which the receiver's page numbers and state slots are others."""
    prefill, decode = side("prefill", 1, engine()), side("decode", 2, engine())
    decode.reserve(PAGE)()
    ends = linked(prefill, decode)
    sender, receiver = Sender(ends[0], linger=LINGER), Receiver([ends[1]], linger=LINGER)
    try:
        yield Session(prefill, decode, sender, receiver)
    finally:
        for each in (sender, receiver, prefill.engine, decode.engine):
            each.close()


def settle(made: Session, *transfers: Any) -> None:
    end = time.monotonic() + SECONDS
    while not all(each.is_settled for each in transfers):
        assert time.monotonic() < end, [each.state for each in transfers]
        made.poll()
        time.sleep(0.0003)


def shown(pool: Any, held: Reservation, row: int) -> dict[str, Tensor]:
    """All that a pool keeps of a request, through its doors, row by row."""
    state_slots = cast("Tensor", held.state_slots)
    slots, pages = held.slots[: held.tokens], torch.from_numpy(held.pages["full"])
    found: dict[str, Tensor] = {}
    for layer in LATENT_LAYERS:
        found[f"latent rows of layer {layer}"] = pool.get_key_buffer(layer)[slots]
        found[f"index keys of layer {layer}"] = pool.get_index_k_with_scale_buffer(layer)[pages]
        keys, scores = pool.get_compress_tail_buffers(layer)
        found |= {f"tail keys of layer {layer}": keys[row], f"tail scores {layer}": scores[row]}
    for name, state in named_tensors(pool.mamba_pool.mamba_cache).items():
        if "intermediate" not in name:
            found[f"state: {name}"] = state[:, state_slots]
    return {name: rows.contiguous().view(torch.uint8) for name, rows in found.items()}


def same_rows(sent: dict[str, Tensor], got: dict[str, Tensor]) -> None:
    assert sent.keys() == got.keys()
    for name, rows in sent.items():
        assert torch.equal(got[name], rows), name


@engines
def test_pages_state_and_tails_arrive_together(engine: Callable[[], TransferEngine]) -> None:
    with joined(engine) as made:
        here, there = made.prefill.held, made.decode.held
        source: Reservation = made.prefill.reserve(TOKENS)()
        assert source.state_slots is not None
        pages = page_numbers(here.allocator, source.slots, source.state_slots, request_row=SENT_ROW)
        wanted = made.decode.reserve(TOKENS, request_row=WANTED_ROW)
        before, sent = bytes_of(made), shown(here.pool, source, SENT_ROW)
        receiving = made.receiver.receive("request", wanted)
        settle(made, made.sender.send("request", pages), receiving)
        taken = receiving.take()
        assert {space: list(each) for space, each in pages.items()} == {
            "full": [1, 2],
            "state": [1],
            "request": [SENT_ROW],
        }
        assert {space: list(each) for space, each in taken.pages.items()} == {
            "full": [2, 3],
            "state": [2],
            "request": [WANTED_ROW],
        }
        assert len(sent) == 4 * len(LATENT_LAYERS) + 2
        assert all(bool(rows.any()) for rows in sent.values())
        same_rows(sent, shown(there.pool, taken, WANTED_ROW))
        arrived(before, made, pages, taken.pages)


@engines
def test_nothing_is_seen_before_the_layer_of_the_state_is_there(
    engine: Callable[[], TransferEngine],
) -> None:
    with joined(engine) as made:
        source: Reservation = made.prefill.reserve(TOKENS, request_row=SENT_ROW)()
        receiving = made.receiver.receive(
            "request", made.decode.reserve(TOKENS, request_row=WANTED_ROW)
        )
        sending = made.sender.send("request", source.pages, layer_by_layer=True)
        sending.ready(*LATENT_LAYERS)
        for _ in range(200):
            made.poll()
        assert (sending.state, receiving.state) == ("moving", "moving")
        sending.ready(STATE_LAYER)
        settle(made, sending, receiving)
        taken = receiving.take()
        sent = shown(made.prefill.held.pool, source, SENT_ROW)
        same_rows(sent, shown(made.decode.held.pool, taken, WANTED_ROW))


def test_a_transfer_without_the_row_of_the_request_is_refused() -> None:
    with joined(LocalEngine) as made:
        before = bytes_of(made)
        source: Reservation = made.prefill.reserve(TOKENS)()
        receiving = made.receiver.receive("request", made.decode.reserve(TOKENS, request_row=1))
        sending = made.sender.send("request", source.pages)
        settle(made, sending, receiving)
        assert (sending.state, receiving.state) == ("failed", "failed")
        assert "pages of spaces full, state are sent, of full, request, state wanted" in str(
            sending.error
        )
        for was, now in zip(before, bytes_of(made), strict=True):
            for region, held in zip(was, now, strict=True):
                np.testing.assert_array_equal(held, region)
