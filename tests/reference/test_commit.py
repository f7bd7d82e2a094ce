"""Accepted drafts on latent leaves and composites, beyond what the laws ask of every pool."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import PrefixValidCommit, supports
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf, swa_pool
from tests.reference.foreign import DoorsOnlyLeaf
from tests.reference.stand_ins import Layer

SLOTS, LENS = torch.tensor([[2, 4], [3, 1]]), torch.tensor([1, 2])

PLAIN: dict[str, Any] = {
    "size": 8,
    "page_size": 4,
    "dtype": torch.bfloat16,
    "head_num": 1,
    "head_dim": 4,
    "layer_num": 1,
    "device": "cpu",
}


def mha(**changes: Any) -> MHALeaf:
    return MHALeaf(**PLAIN | changes)


@pytest.mark.parametrize("scales", [(1.0, None), (None, 2.0)])
def test_latent_rows_take_no_scale(scales: tuple[float | None, float | None]) -> None:
    leaf = MLALeaf(8, 4, torch.bfloat16, 4, 2, 1, "cpu")
    rows = torch.ones(4, 1, 6)
    with pytest.raises(ValueError, match="latent rows take no scale"):
        leaf.set_kv_buffer_prefix_valid(Layer(), SLOTS, LENS, rows, None, *scales)
    assert not leaf.kv_buffer[0].any()


def test_packed_rows_are_those_of_a_plain_write() -> None:
    leaves = [
        DSALeaf(128, 64, 128, torch.float8_e4m3fn, 8, 1, "cpu", 16, kv_cache_dim=148)
        for _ in range(2)
    ]
    rows = torch.randn(4, 1, 136, generator=torch.Generator().manual_seed(0))
    leaves[0].set_kv_buffer_prefix_valid(Layer(), SLOTS, LENS, rows, None)
    kept = torch.tensor([0, 2, 3])
    leaves[1].set_kv_buffer(Layer(), torch.tensor([2, 3, 1]), rows[kept], None)
    assert leaves[0].kv_buffer[0].any()
    assert torch.equal(leaves[0].kv_buffer[0], leaves[1].kv_buffer[0])


def test_a_window_layer_gets_the_peers_of_what_was_accepted() -> None:
    full, window = mha(), mha(size=4)
    pair = swa_pool(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=[0],
        swa_attention_layer_ids=[1],
    )
    assert isinstance(pair, PrefixValidCommit)
    pair.register_mapping(torch.tensor([0, 1, 6, 5, 7, 0, 0, 0, 0, 0, 0, 0, -1]))
    rows = torch.arange(1.0, 5).view(4, 1, 1).expand(4, 1, 4)
    far = torch.tensor([[2, 400], [3, 1]])
    pair.set_kv_buffer_prefix_valid(Layer(1), far, LENS, rows, rows)
    assert window.k_buffer[0][:, 0, 0].tolist() == [0, 4, 0, 0, 0, 3, 1, 0]
    assert not full.k_buffer[0].any()


def test_a_composite_has_the_writer_only_where_its_leaves_have_it() -> None:
    foreign: Any = DoorsOnlyLeaf(**PLAIN)
    assert not supports(foreign, PrefixValidCommit)
    pair = swa_pool(
        full_kv_pool=mha(),
        swa_kv_pool=foreign,
        full_attention_layer_ids=[0],
        swa_attention_layer_ids=[1],
    )
    assert not isinstance(pair, PrefixValidCommit)
