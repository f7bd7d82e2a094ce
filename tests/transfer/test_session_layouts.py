"""Sessions of two layouts: pages are seen in the receiver's own, once all of them are."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from kvproto.adapters.npu.platform import on_cpu
from kvproto.protocols import MHALeafRequest, MLALeafRequest, SWAPoolRequest
from kvproto.reference import PageAllocator, SWAPairAllocator
from kvproto.reference.build_any import build_reference
from kvproto.transfer import TransferEngine, describe
from kvproto.transfer.demo.pools import DemoPool
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.engines.nixl_engine import NixlEngine
from kvproto.transfer.session import (
    Receiver,
    Reservation,
    Sender,
    StagingOptions,
    TransferError,
    open_link,
    register_pools,
)
from tests.transfer.held_engine import HeldEngine
from tests.transfer.other_layouts import PAGE_BYTES, converting, heads_pool, paged, rows, side
from tests.transfer.pools import fill, snapshot
from tests.transfer.sessions import LINGER, Session, Side, linked, session, spin
from tests.transfer.test_killed import forked

TOKENS = 43


def latent_pool(layout: Any, rope: int = 32) -> Any:
    """Latent and rope parts in planes of their own, as NPU kernels read them."""
    return on_cpu().build_leaf(
        MLALeafRequest(
            size=192,
            page_size=16,
            dtype=torch.bfloat16,
            kv_lora_rank=64,
            qk_rope_head_dim=rope,
            layer_num=2,
            layout=layout,
            device="cpu",
        )
    )


def window_side(layouts: tuple[Any, Any], owner: str, seed: int) -> Side:
    """A pair of leaves, each in a layout of its own."""
    requests = [_heads(layout, size) for layout, size in zip(layouts, (192, 96), strict=True)]
    pool: Any = build_reference(
        SWAPoolRequest(
            full=requests[0],
            window=requests[1],
            full_attention_layer_ids=(0, 2),
            swa_attention_layer_ids=(1, 3),
        )
    )
    fill(pool, seed)
    parts = [
        PageAllocator(size, 16, torch.bfloat16, "cpu", pool, need_sort=True) for size in (192, 96)
    ]
    allocator = SWAPairAllocator(
        full_attn_allocator=parts[0], swa_attn_allocator=parts[1], kvcache=pool
    )
    engine, manifest = LocalEngine(), describe(pool, owner=owner, conversion="staging")
    register_pools(engine, manifest)
    return Side(DemoPool(pool, allocator), manifest, engine)


def _heads(layout: Any, size: int) -> MHALeafRequest:
    return MHALeafRequest(
        size=size,
        page_size=16,
        dtype=torch.bfloat16,
        head_num=2,
        head_dim=32,
        layer_num=2,
        layout=layout,
        device="cpu",
    )


def moved(made: Session, tokens: int = TOKENS, **how: Any) -> tuple[Reservation, Reservation]:
    """A transfer of so many tokens, whose pages have other numbers at both ends."""
    made.decode.pages(32)
    source = made.prefill.reserve(tokens)()
    before = snapshot(made.decode.manifest)
    receiving = made.receiver.receive("request", made.decode.reserve(tokens))
    spin(made, made.sender.send("request", source.pages, **how), receiving)
    taken = receiving.take()
    unchanged(made.decode, before, taken)
    return source, taken


def unchanged(held: Side, before: Any, taken: Reservation) -> None:
    """Every page that was not asked for is what it was."""
    regions = [each for part in held.manifest.pools for each in part.regions]
    for each, old, now in zip(regions, before, snapshot(held.manifest), strict=True):
        for was, layer in zip(old, now, strict=True):
            kept = [i for i in range(len(was)) if i not in taken.pages[each.space]]
            assert (was[kept] == layer[kept]).all()


def same_rows(made: Session, source: Reservation, taken: Reservation) -> None:
    sent, got = rows(made.prefill, source), rows(made.decode, taken)
    assert [torch.equal(a, b) for a, b in zip(sent, got, strict=True)] == [True] * len(sent)


@pytest.mark.parametrize("engine", [LocalEngine, NixlEngine])
@pytest.mark.parametrize(
    "layouts",
    [("nhd", "hnd"), ("hnd", "paged_nhd"), ("hnd", "vectorized_5d"), ("vectorized_5d", "nhd")],
    ids="-".join,
)
def test_keys_and_values_are_read_in_the_receivers_layout(
    layouts: tuple[str, str], engine: Callable[[], TransferEngine]
) -> None:
    sides = side(layouts[0], "prefill", 1, engine()), side(layouts[1], "decode", 2, engine())
    with converting(*sides, part_bytes=PAGE_BYTES // 5) as made:
        same_rows(made, *moved(made))


@pytest.mark.parametrize(
    ("layouts", "engine"),
    [
        (("latent_split", "latent_split_nz"), NixlEngine),
        (("latent_split_nz", "latent_split"), LocalEngine),
    ],
)
@pytest.mark.parametrize(("rope", "converted"), [(32, {"latent", "rope"}), (16, {"latent"})])
def test_latent_planes_are_read_in_the_receivers_layout(
    layouts: tuple[str, str],
    engine: Callable[[], TransferEngine],
    rope: int,
    converted: set[str],
) -> None:
    """Rope parts of 16 are one block: they go to their place as they are, beside the others."""
    prefill = paged(latent_pool(layouts[0], rope), "prefill", 1, engine())
    decode = paged(latent_pool(layouts[1], rope), "decode", 2, engine())
    with converting(prefill, decode, part_bytes=1 << 13) as made:
        assert {p.name for p in made.sender.link.plan.pairs if p.is_converted} == converted
        same_rows(made, *moved(made))


@pytest.mark.parametrize("sizes", [(("nhd", 64), ("hnd", 16)), (("hnd", 16), ("nhd", 64))], ids=str)
def test_pages_of_two_lengths_are_converted_in_the_shorter(sizes: Any) -> None:
    pools = [heads_pool(layout, page) for layout, page in sizes]
    with converting(paged(pools[0], "prefill", 1), paged(pools[1], "decode", 2)) as made:
        source, taken = made.prefill.reserve(TOKENS)(), made.decode.reserve(TOKENS)
        receiving = made.receiver.receive("request", taken)
        spin(made, made.sender.send("request", source.pages), receiving)
        same_rows(made, source, receiving.take())


def test_of_two_spaces_one_is_converted_and_the_other_goes_as_it_is() -> None:
    """A window of the last two pages, whose leaf has one layout at both ends."""
    prefill, decode = window_side(("nhd", "hnd"), "p", 1), window_side(("hnd", "hnd"), "d", 2)
    with converting(prefill, decode) as made:
        same_rows(made, *moved(made))
        assert {pair.space for pair in made.sender.link.plan.pairs if pair.is_converted} == {"full"}


def test_the_drafts_pages_are_converted_too() -> None:
    drafts = [heads_pool(layout, layer_num=1) for layout in ("nhd", "hnd")]
    for seed, draft in enumerate(drafts):
        fill(draft, 5 + seed)
    prefill = paged(heads_pool("nhd"), "prefill", 1, draft=drafts[0])
    with converting(prefill, paged(heads_pool("hnd"), "decode", 2, draft=drafts[1])) as made:
        source, taken = moved(made)
        same_rows(made, source, taken)
        made.prefill.held, made.decode.held = (
            DemoPool(draft, side.held.allocator)
            for draft, side in zip(drafts, (prefill, made.decode), strict=True)
        )
        same_rows(made, source, taken)


def test_layer_by_layer_pages_are_seen_when_the_last_one_is_there() -> None:
    """Of each layer its own bytes go, and no other."""
    engine = HeldEngine()
    with converting(side("nhd", "prefill", 1, engine), side("hnd", "decode", 2)) as made:
        source = made.prefill.reserve(TOKENS)()
        receiving = made.receiver.receive("request", made.decode.reserve(TOKENS))
        before = snapshot(made.decode.manifest)
        sending = made.sender.send("request", source.pages, layer_by_layer=True)
        for layer_id in (2, 0, 1):
            assert receiving.state == "moving"
            for was, now in zip(before, snapshot(made.decode.manifest), strict=True):
                assert all((a == b).all() for a, b in zip(was, now, strict=True))
            sending.ready(layer_id)
            made.poll()
            assert sum(each.nbytes for each in engine.held) == PAGE_BYTES  # of 3 pages, 1 layer
            engine.let_go()
            made.poll()
        spin(made, receiving)
        same_rows(made, source, receiving.take())


@pytest.mark.parametrize("layouts", [("nhd", "nhd"), ("nhd", "hnd"), ("hnd", "vectorized_5d")])
def test_each_stage_is_converted_from_its_own_layout(layouts: tuple[str, str]) -> None:
    decode = paged(heads_pool("hnd", layer_num=4), "decode", 9)
    stages = [
        paged(heads_pool(layout, layer_num=2, start_layer=2 * at), f"stage-{at}", at)
        for at, layout in enumerate(layouts)
    ]
    ends = [linked(each, decode) for each in stages]
    senders = [Sender(end[0], linger=LINGER) for end in ends]
    staging = StagingOptions(device="cpu")
    receiver = Receiver([end[1] for end in ends], linger=LINGER, staging=staging)
    decode.pages(32)
    receiving = receiver.receive("request", decode.reserve(TOKENS))
    sources = [each.reserve(TOKENS)() for each in stages]
    for sender, source in zip(senders, sources, strict=True):
        assert receiving.state == "moving"
        sending = sender.send("request", source.pages)
        while not sending.is_settled:
            sender.poll()
            receiver.poll()
    receiver.poll()
    got = rows(decode, receiving.take())  # keys of four layers, then values
    sent = [rows(*each) for each in zip(stages, sources, strict=True)]
    assert all(map(torch.equal, got[:4], [*sent[0][:2], *sent[1][:2]]))
    assert all(map(torch.equal, got[4:], [*sent[0][2:], *sent[1][2:]]))
    for sender in senders:
        sender.close()
    receiver.close()


def refused(prefill: Side, decode: Side) -> list[TransferError]:
    """What opening a link raises, on both sides."""
    here, there = socket.socketpair()
    with ThreadPoolExecutor(2) as threads:
        sides = [
            threads.submit(open_link, prefill.engine, prefill.manifest, here, role="sender"),
            threads.submit(open_link, decode.engine, decode.manifest, there, role="receiver"),
        ]
    found = [each.exception() for each in sides]
    return [each for each in found if isinstance(each, TransferError)]


def test_ranks_with_other_heads_are_refused_with_what_to_do() -> None:
    prefill = paged(heads_pool("nhd"), "rank-1", 1, heads=range(2, 4))
    errors = refused(prefill, paged(heads_pool("hnd", head_num=4), "d", 2, heads=range(4)))
    assert len(errors) == 2
    for error in errors:
        assert "target full key: layout: " in str(error)
        assert "converted: give both ranks these, or one layout" in str(error)


def test_a_side_that_converts_nothing_is_told_how_to() -> None:
    prefill, decode = side("nhd", "prefill", 1), side("hnd", "decode", 2)
    decode.manifest = describe(decode.held.pool, owner="decode")
    errors = refused(prefill, decode)
    assert len(errors) == 2
    for error in errors:
        assert "target full value: layout: " in str(error)
        assert 'describe(..., conversion="staging") on both sides' in str(error)


def test_staging_memory_is_what_all_pages_need_and_no_more() -> None:
    with converting(side("nhd", "prefill", 1), side("hnd", "decode", 2), 1 << 40) as made:
        assert made.receiver._staging is not None
        assert made.receiver._staging.nbytes == 13 * PAGE_BYTES


def test_alike_layouts_have_no_staging_memory() -> None:
    with session() as made:
        assert made.receiver._staging is None
        assert made.sender._direct is made.sender.link.plan


def sends(engine: Callable[[], TransferEngine]) -> Callable[[socket.socket, Any], None]:
    """A sender of one request, that tells its rows and stays until its peer has gone."""

    def main(peer: socket.socket, tell: Any) -> None:
        held = side("nhd", "prefill", 1, engine())
        sender = Sender(open_link(held.engine, held.manifest, peer, role="sender"))
        held.pages(48)
        source = held.reserve(TOKENS)()
        tell.send([each.numpy().tobytes() for each in rows(held, source)])
        sender.wait(sender.send("request", source.pages))
        while sender.link.exchange.ended is None:
            sender.poll()
        sender.close()

    return main


@pytest.mark.parametrize("engine", [LocalEngine, NixlEngine])
def test_another_process_sends_its_own_layout(engine: Callable[[], TransferEngine]) -> None:
    with forked(sends(engine)) as (peer, told, _):
        held = side("hnd", "decode", 2, engine())
        link = open_link(held.engine, held.manifest, peer, role="receiver")
        receiver = Receiver([link], linger=LINGER, staging=StagingOptions(device="cpu"))
        taken = receiver.wait(receiver.receive("request", held.reserve(TOKENS)))
        assert [each.numpy().tobytes() for each in rows(held, taken)] == told.recv()
        receiver.close()
        held.engine.close()
