"""Window pairs that are asked for by request, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    CapabilityError,
    Declined,
    DSALeafRequest,
    IndexerCapable,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALatent,
    MLALeafRequest,
    SWAComposite,
    SWAPoolRequest,
)
from kvproto.reference.build_composite import build_reference_pool
from kvproto.reference.mha import MHALeaf
from tests.reference.foreign import ForeignLeaf
from tests.reference.window_pairs import LATENT, ROWS, but, pair, small


def test_what_does_not_fit_together_is_refused() -> None:
    def leaf(**changes: Any) -> MHALeaf:
        given: dict[str, Any] = {**ROWS, "size": 8, "layer_num": 1, **changes}
        return MHALeaf(**given)

    one = leaf()
    wrong: list[tuple[Any, Any, list[int], list[int], str]] = [
        (one, one, [0], [1], "are the same leaf"),
        (one, leaf(), [0, 2], [1], "the full leaf has 1 layers, 2 ids name them"),
        (one, leaf(layer_num=2), [0], [1, 1], r"swa layer ids \[1, 1\]: none twice"),
        (one, leaf(), [-1], [1], "none negative"),
        (one, leaf(), [1], [1], "a layer is on two sides"),
        (one, leaf(page_size=4), [0], [1], "must agree on page_size: full 1, swa 4"),
        (one, leaf(dtype=torch.float16), [0], [1], "must agree on dtype"),
    ]
    for full, window, full_ids, window_ids, words in wrong:
        with pytest.raises(ValueError, match=words):
            pair(full, window, full_ids, window_ids)
    for stage in ({"start_layer": 1}, {"end_layer": 1}, {"start_layer": -1}):
        with pytest.raises(ValueError, match="the stage has to hold the layers"):
            pair(one, leaf(), [0], [1], **stage)
    with pytest.raises(CapabilityError, match="the swa side of a composite needs KVLeaf"):
        pair(one, object(), [0], [1])
    with pytest.raises(CapabilityError, match="the full side of a composite needs KVLeaf"):
        pair(small(), one, [0], [1])


def request(**changes: Any) -> SWAPoolRequest:
    fields: dict[str, Any] = {
        "full": MHALeafRequest(size=16, layer_num=2, **ROWS),
        "window": MHALeafRequest(size=8, layer_num=1, **ROWS),
        "full_attention_layer_ids": (0, 2),
        "swa_attention_layer_ids": (1,),
    }
    return SWAPoolRequest(**fields | changes)


def test_a_request_is_built_over_whoevers_leaves() -> None:
    """sglang#27679: a vendor's leaves, of no class of ours, are in the composite that is built."""
    asked: list[LeafRequest] = []

    def vendor(given: LeafRequest) -> KVLeaf | Declined:
        asked.append(given)
        keywords = given.keywords()
        dropped = ("end_layer", "enable_memory_saver", "v_head_dim")
        return ForeignLeaf(**{k: v for k, v in keywords.items() if k not in dropped})

    built = build_reference_pool(request(), build_leaf=vendor)
    assert isinstance(built, SWAComposite)
    assert isinstance(built.swa_kv_pool, ForeignLeaf)
    assert asked == [request().full, request().window]
    assert not any(isinstance(built, base) for base in (MHALeaf, ForeignLeaf))
    ours = build_reference_pool(request())
    assert isinstance(ours, SWAComposite)
    assert isinstance(ours.full_kv_pool, MHALeaf)
    assert isinstance(build_reference_pool(request().full), MHALeaf)


def test_pairs_of_latent_leaves_are_built_from_requests() -> None:
    full = DSALeafRequest(size=128, layer_num=1, index_head_dim=128, **LATENT)
    window = MLALeafRequest(size=64, layer_num=1, **LATENT)
    ids = {"full_attention_layer_ids": (3,), "swa_attention_layer_ids": (4,)}
    built = build_reference_pool(request(full=full, window=window, **ids))
    assert isinstance(built, IndexerCapable)
    assert isinstance(built, MLALatent)


def test_a_declined_leaf_declines_the_pool() -> None:
    packed = MHALeafRequest(size=8, layer_num=1, layout="packed_pages", **ROWS)
    declined = build_reference_pool(request(window=packed))
    assert isinstance(declined, Declined)
    assert declined.reason.startswith("the window leaf of a window pair: ")
    refused = build_reference_pool(request(), build_leaf=lambda _: Declined("no memory"))
    assert refused == Declined("the full leaf of a window pair: no memory")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"full_attention_layer_ids": (0,)}, "its leaf is asked for with layer_num=2"),
        ({"full_attention_layer_ids": (0, 1)}, r"swa_attention_layer_ids=\(1,\): \[1\] are full"),
        ({"full_attention_layer_ids": (0, 0)}, "a layer is named twice"),
        ({"swa_attention_layer_ids": (-1,)}, "integers of at least 0"),
        (
            {"window": MHALeafRequest(size=8, layer_num=1, **but(page_size=4))},
            "must have page_size=1, as the full leaf has",
        ),
        (
            {"window": MHALeafRequest(size=8, layer_num=1, **but(dtype=torch.float16))},
            "must have dtype=torch.bfloat16",
        ),
    ],
)
def test_requests_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request(**changes)
