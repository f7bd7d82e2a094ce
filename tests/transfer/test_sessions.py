"""Pages go from pool to pool: all of their bytes, nothing else, and seen only when whole."""

from __future__ import annotations

import numpy as np
import pytest

from kvproto.transfer.demo.pools import DEMO_POOLS, DemoPoolKind
from tests.transfer.sessions import arrived, bytes_of, session, spin


@pytest.mark.parametrize("kind", DEMO_POOLS)
def test_pages_of_every_kind_arrive_whole(kind: DemoPoolKind) -> None:
    with session(kind, sender={"part_bytes": 1 << 16}) as made:
        made.decode.pages(16)  # so that page numbers differ
        before, source = bytes_of(made), made.prefill.pages()
        sending = made.sender.send("request", source)
        receiving = made.receiver.receive("request", made.decode.reserve())
        spin(made, sending, receiving)
        target = receiving.take()
        assert (sending.state, receiving.state) == ("done", "done")
        assert target.tokens == 43
        assert set(target.pages) == set(source)
        arrived(before, made, source, target.pages)
        assert made.receiver.dropped == 0
        assert made.receiver.pages_held == 0
        taken = made.decode.free()
        target.free()
        assert made.decode.free() > taken


def test_the_receiver_may_ask_first() -> None:
    with session() as made:
        receiving = made.receiver.receive("request", made.decode.reserve())
        made.poll()
        with pytest.raises(RuntimeError, match="its pages may be seen by nobody"):
            receiving.take()
        before, source = bytes_of(made), made.prefill.pages()
        sending = made.sender.send("request", source)
        spin(made, sending, receiving)
        arrived(before, made, source, receiving.take().pages)


def test_layers_go_as_they_are_ready_and_pages_are_seen_after_the_last() -> None:
    with session("dsa") as made:
        before, source = bytes_of(made), made.prefill.pages()
        receiving = made.receiver.receive("request", made.decode.reserve())
        sending = made.sender.send("request", source, layer_by_layer=True)
        for layer_id in (1, 0, 3):
            sending.ready(layer_id)
            for _ in range(50):
                made.poll()
            assert (sending.state, receiving.state) == ("moving", "moving")
        with pytest.raises(ValueError, match="layer_id 4 of the target pool does not travel"):
            sending.ready(4)
        sending.ready(2)
        spin(made, sending, receiving)
        arrived(before, made, source, receiving.take().pages)


@pytest.mark.parametrize("named", [(0, 0, 1, 2), (3, 3, 0, 1, 2, 1)], ids=str)
def test_a_layer_that_is_ready_twice_goes_once(named: tuple[int, ...]) -> None:
    with session(pages=4) as made:
        before, source = bytes_of(made), made.prefill.pages()
        receiving = made.receiver.receive("request", made.decode.reserve())
        sending = made.sender.send("request", source, layer_by_layer=True)
        for layer_id in named:
            sending.ready(layer_id)
            for _ in range(5):
                made.poll()
        sending.ready(*{0, 1, 2, 3} - set(named))
        spin(made, sending, receiving)
        assert (sending.state, receiving.state) == ("done", "done")
        assert made.receiver.dropped == 0
        arrived(before, made, source, receiving.take().pages)


def test_many_transfers_share_a_link() -> None:
    with session(pages=40) as made:
        before = bytes_of(made)
        sources = [made.prefill.pages(32) for _ in range(20)]
        sendings = [made.sender.send(f"r{i}", pages) for i, pages in enumerate(sources)]
        receivings = [made.receiver.receive(f"r{i}", made.decode.reserve(32)) for i in range(20)]
        spin(made, *sendings, *receivings)
        source = np.concatenate([each["full"] for each in sources])
        target = np.concatenate([each.take().pages["full"] for each in receivings])
        arrived(before, made, {"full": source}, {"full": target})


def test_a_transfer_of_no_pages_is_done_once_the_sender_says_so() -> None:
    with session() as made:
        receiving = made.receiver.receive("nothing", made.decode.reserve(0))
        for _ in range(20):
            made.poll()
        assert receiving.state == "moving"
        sending = made.sender.send("nothing", made.prefill.pages(0))
        spin(made, sending, receiving)
        assert len(receiving.take().pages["full"]) == 0


def test_bytes_on_their_way_are_bounded() -> None:
    with session(sender={"most_bytes": 1 << 17, "part_bytes": 1 << 16}) as made:
        sending = made.sender.send("request", made.prefill.pages())
        made.receiver.receive("request", made.decode.reserve())
        made.sender.poll()
        assert len(sending.todo) == 10  # of twelve parts of 64 KiB, two a poll
