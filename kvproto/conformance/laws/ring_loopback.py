"""Full pages and rings of requests from one pool to another, by description and by address."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import DeclaresRegions, KVPool, RequestRingSWA, Transferable, supports

from ..law import law
from ..ring_bench import RingBench
from .host_layouts import shown
from .loopback import expect_moved, travel
from .request_ring import PLACED


def _leaves_say_where(bench: object, /) -> bool:
    """For pools whose leaves say where their bytes are: a pool of rings itself does not."""
    return isinstance(bench, RingBench) and all(
        supports(leaf, DeclaresRegions) for leaf in bench.owning_leaves
    )


@law(
    "request-ring.loopback",
    RequestRingSWA,
    Transferable,
    KVPool,
    needs=(*PLACED, "request-ring.transfer"),
    hazardous=True,
    host_only="the engine of this machine's processor reaches no device",
    when=_leaves_say_where,
    check="declare every buffer of the window leaf from page 0 on, as it is exported by the row",
)
def ring_loopback(bench: RingBench) -> None:
    """What a peer of the same request is sent arrives whole: full pages, and rings by the row."""
    there = bench.sibling(bench.another())
    bench.write_all_slots()
    sent = {layer_id: _contents(bench, layer_id) for layer_id in bench.layer_ids}
    rows = bench.whole.num_req_slots
    of_pages = [2, 1], [1, 2]
    of_rows = ([rows - 1, 1], [1, rows - 1]) if rows > 2 else ([1], [1])
    state = travel(bench.pool, there.pool, {"full": of_pages, "request": of_rows})
    bench.expect("the state of the write", expected="done", got=state)
    pages = bench.full.slots // bench.full.request.page_size
    for layer_id, was in sent.items():
        found = _contents(there, layer_id)
        if layer_id in bench.window_ids:
            expect_moved(bench, layer_id, was, found, rows, of_rows, "rows")
        else:
            expect_moved(bench, layer_id, was, found, pages, of_pages, "pages")


def _contents(bench: RingBench, layer_id: int) -> list[Tensor]:
    leaf, leaf_id = bench.place(layer_id)
    return shown(leaf, leaf_id)
