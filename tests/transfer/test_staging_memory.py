"""Who gets staging memory, who waits for it, and that all of it comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from kvproto.transfer import EngineError, Span
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import (
    OutOfStaging,
    Receiver,
    Sender,
    StagingOptions,
    TransferError,
    staging_memory,
)
from kvproto.transfer.session.free_ranges import ALIGNMENT, FreeRanges
from tests.transfer.held_engine import HeldEngine
from tests.transfer.other_layouts import PAGE_BYTES, converting, rows, side
from tests.transfer.pools import snapshot
from tests.transfer.sessions import Session, linked, spin

TOKENS = 43
ROOM = 3 * PAGE_BYTES
"""Staging memory for one transfer of so many tokens, and not for two."""


def turns(made: Session, count: int = 20) -> None:
    for _ in range(count):
        made.poll()


def test_transfers_wait_for_staging_memory_in_turn() -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), ROOM) as made:
        names = ["first", "second", "third"]
        receivings = [made.receiver.receive(n, made.decode.reserve(TOKENS)) for n in names]
        assert [each.state for each in receivings] == ["moving", "waiting", "waiting"]
        sources = [made.prefill.reserve(TOKENS)() for _ in names]
        sendings = [made.sender.send(n, s.pages) for n, s in zip(names, sources, strict=True)]
        turns(made, 1)
        assert made.sender.asked <= {"first"}
        for receiving in receivings:
            spin(made, receiving)
        spin(made, *sendings)
        for source, receiving in zip(sources, receivings, strict=True):
            sent, got = rows(made.prefill, source), rows(made.decode, receiving.take())
            assert all(map(torch.equal, sent, got))


def test_a_small_transfer_does_not_pass_one_that_waits() -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), ROOM + 2048) as made:
        first = made.receiver.receive("first", made.decode.reserve(32))
        large = made.receiver.receive("large", made.decode.reserve(TOKENS))
        small = made.receiver.receive("small", made.decode.reserve(16))
        assert (first.state, large.state, small.state) == ("moving", "waiting", "waiting")
        sending = made.sender.send("large", made.prefill.pages(TOKENS))
        made.receiver.cancel(large)
        turns(made, 3)
        assert str(sending.error) == (
            "transfer large with decode, waiting: declined by the receiver: "
            "cancelled by the receiver"
        )
        assert (first.state, large.state, small.state) == ("moving", "failed", "moving")
        assert str(large.error) == (
            "transfer large with prefill, reserving: cancelled by the receiver"
        )
        assert made.receiver.pages_held == 3


def test_who_waits_too_long_for_staging_fails_and_gives_its_pages_back() -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), ROOM) as made:
        made.receiver.receive("first", made.decode.reserve(TOKENS))
        free = made.decode.free()
        late = made.receiver.receive("late", made.decode.reserve(TOKENS), timeout=0.02)
        with pytest.raises(TransferError, match="late with prefill, reserving: not done in time"):
            made.receiver.wait(late)
        turns(made, 2)
        assert late.is_settled
        assert made.decode.free() == free


def test_more_than_all_staging_memory_is_refused_and_nothing_is_held() -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), ROOM) as made:
        free = made.decode.free()
        with pytest.raises(OutOfStaging) as raised:
            made.receiver.receive("long", made.decode.reserve(49))
        assert str(raised.value) == (
            f"transfer long needs {4 * PAGE_BYTES} bytes of staging memory at once, there are "
            f"{ROOM}: StagingOptions(most_bytes=...) says how many, or ask for fewer tokens at a "
            "time"
        )
        assert made.decode.free() == free
        assert made.receiver.pages_held == 0
        again = made.receiver.receive("long", made.decode.reserve(48))
        spin(made, again, made.sender.send("long", made.prefill.pages(48)))
        again.take()


def test_options_that_cannot_be_are_refused_and_the_link_is_kept() -> None:
    ends = linked(side("nhd", "prefill", 1), side("hnd", "decode", 2))
    with pytest.raises(ValueError, match=r"key, value are converted .*: give staging=StagingOpt"):
        Receiver([ends[1]])
    with pytest.raises(ValueError, match=f"most_bytes is 100: one page .* needs {PAGE_BYTES} byte"):
        Receiver([ends[1]], staging=StagingOptions(device="cpu", most_bytes=100))
    with pytest.raises(ValueError, match="memory on meta: torch opens addresses on cpu and cuda"):
        Receiver([ends[1]], staging=StagingOptions(device="meta"))
    sender = Sender(ends[0])
    receiver = Receiver([ends[1]], staging=StagingOptions(device="cpu"))  # the link is still there
    sender.close()
    receiver.close()


class Stream:
    """A device's stream that is done when a test says so."""

    is_done = False

    def query(self) -> bool:
        return self.is_done


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_nothing_is_seen_or_lent_before_the_device_has_converted(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream()
    monkeypatch.setattr(staging_memory, "fence", lambda _: stream)
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), ROOM) as made:
        receiving = made.receiver.receive("request", made.decode.reserve(TOKENS))
        spin(made, made.sender.send("request", made.prefill.pages(TOKENS)))
        second = made.receiver.receive("second", made.decode.reserve(TOKENS))
        turns(made)
        if is_cancelled:
            made.receiver.cancel(receiving)
            turns(made)
        assert (receiving.is_settled, second.state) == (False, "waiting")
        assert made.receiver.pages_held == 6
        stream.is_done = True
        turns(made, 2)
        assert (receiving.state, second.state) == ("failed" if is_cancelled else "done", "moving")


def test_many_transfers_and_cancels_in_any_order_leave_everything_free_and_right() -> None:
    """Writes land when they like; rows of what is done are the sender's, all else is as it was."""
    numbers, engine = np.random.default_rng(11), HeldEngine()
    sides = side("hnd", "prefill", 1, engine), side("vectorized_5d", "decode", 2)
    with converting(*sides, 2 * ROOM, part_bytes=PAGE_BYTES // 2) as made:
        free, before = [each.free() for each in sides], snapshot(made.decode.manifest)
        written: set[int] = set()
        states: list[str] = []
        for wave in range(12):
            tokens = numbers.integers(1, 49, 4).tolist()
            keys = [f"{wave}-{at}" for at in range(4)]
            sources = [made.prefill.reserve(n)() for n in tokens]
            receivings = [
                made.receiver.receive(k, made.decode.reserve(n))
                for k, n in zip(keys, tokens, strict=True)
            ]
            sendings = [made.sender.send(k, s.pages) for k, s in zip(keys, sources, strict=True)]
            chosen = numbers.permutation(4).tolist()
            for _ in range(200):
                made.poll()
                engine.let_go(int(numbers.integers(0, 3)))
                if chosen and numbers.random() < 0.2:
                    at = chosen.pop()
                    if receivings[at].state == "done":
                        written.update(receivings[at].take().pages["full"].tolist())
                        receivings[at].is_taken = False
                    if numbers.random() < 0.5:
                        made.receiver.cancel(receivings[at])
                    elif numbers.random() < 0.5:
                        sendings[at].cancel()
            engine.let_go()
            spin(made, *sendings, *receivings)
            for source, receiving in zip(sources, receivings, strict=True):
                states.append(receiving.state)
                if receiving.state == "done" and not receiving.is_taken:
                    taken = receiving.take()
                    written.update(taken.pages["full"].tolist())
                    assert all(
                        map(torch.equal, rows(made.prefill, source), rows(made.decode, taken))
                    )
                    taken.free()
                source.free()
        assert states.count("done") > 10
        assert states.count("failed") > 10
        assert [each.free() for each in sides] == free
        assert made.receiver._staging is not None
        assert made.receiver._staging._free.take(2 * ROOM) == 0
        kept = [i for i in range(13) if i not in written]
        for was, now in zip(before, snapshot(made.decode.manifest), strict=True):
            assert all((a[kept] == b[kept]).all() for a, b in zip(was, now, strict=True))


class Clinging(LocalEngine):
    """Does not let go of what was registered with it last."""

    def register(self, spans: Sequence[Span], /) -> Any:
        return self

    def release(self) -> None:
        raise EngineError("local engine: it cannot be withdrawn")


def test_memory_that_an_engine_holds_on_to_stays() -> None:
    engine = Clinging()
    prefill, decode = side("nhd", "prefill", 1), side("hnd", "decode", 2, engine)
    ends = linked(prefill, decode)
    sender = Sender(ends[0])
    receiver = Receiver([ends[1]], staging=StagingOptions(device="cpu"))
    for _ in range(2):
        with pytest.raises(EngineError, match="it cannot be withdrawn"):
            receiver.close()
        assert receiver._staging in staging_memory._REGISTERED
    staging_memory._REGISTERED.discard(receiver._staging)
    sender.close()


def test_ranges_that_are_lent_never_meet_and_come_back_whole() -> None:
    """Against a list of single bytes, for many orders of taking and giving back."""
    numbers = np.random.default_rng(5)
    free, owner = FreeRanges(5000), np.zeros(5000, int)
    lent: dict[int, tuple[int, int]] = {}
    for step in range(1, 600):
        if lent and numbers.random() < 0.5:
            begin, nbytes = lent.pop(int(numbers.choice(list(lent))))
            free.give_back(begin, nbytes)
            owner[begin : begin + nbytes] = 0
            continue
        nbytes = int(numbers.integers(1, 1500))
        taken = free.take(nbytes)
        fits = [
            at for at in range(0, 5000 - nbytes + 1, ALIGNMENT) if not owner[at : at + nbytes].any()
        ]
        assert taken == (fits[0] if fits else None)
        if taken is not None:
            owner[taken : taken + nbytes] = step
            lent[step] = taken, nbytes
    for begin, nbytes in lent.values():
        free.give_back(begin, nbytes)
    assert free.take(5000) == 0
