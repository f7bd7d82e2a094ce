"""What a window pair can: exactly what its leaves allow."""

from __future__ import annotations

import pytest
import torch

from kvproto.protocols import (
    Composite,
    DeclaresRegions,
    DeclaresTraits,
    HostCopyable,
    IndexerCapable,
    KVLeaf,
    KVPool,
    LayerIdReporting,
    MHARows,
    MLALatent,
    Movable,
    ScaledWrite,
    SizeReporting,
    StateTransferable,
    SWACapable,
    SWAComposite,
    Transferable,
    explain,
)
from kvproto.reference.mha import MHALeaf
from kvproto.reference.mla import MLALeaf
from tests.reference.foreign import DoorsOnlyLeaf, ForeignLeaf
from tests.reference.window_pairs import (
    LATENT,
    ROWS,
    has,
    indexed_and_plain,
    latent_pair,
    pair,
    small,
    two,
)

UNCONDITIONAL: list[type] = [KVPool, Composite, SWACapable, SWAComposite]

OF_BOTH_LEAVES: list[type] = [
    Transferable,
    StateTransferable,
    LayerIdReporting,
    HostCopyable,
    Movable,
    SizeReporting,
    DeclaresTraits,
    DeclaresRegions,
    ScaledWrite,
]


@pytest.mark.parametrize("capability", UNCONDITIONAL + OF_BOTH_LEAVES)
def test_over_two_mha_leaves_it_has(capability: type) -> None:
    pool = small()
    assert has(pool, capability)
    assert issubclass(type(pool), capability), "settled on the class"
    assert explain(pool, capability) == []


def test_over_two_mha_leaves_it_lacks() -> None:
    """It is no leaf, owns no rows, and keeps neither latent rows nor index keys."""
    for capability in (KVLeaf, MHARows, MLALatent, IndexerCapable):
        assert not has(small(), capability)


def test_rows_are_asked_of_the_leaves() -> None:
    """Heads and widths are told without them, which is declared, not half of a capability."""
    assert (small().k_buffer, small().v_buffer) == (None, None)
    assert explain(small(), MHARows) == ["k_buffer: missing", "v_buffer: missing"]


def test_over_latent_leaves_it_has_latent_doors_and_no_others() -> None:
    full, window = MLALeaf(size=64, layer_num=1, **LATENT), MLALeaf(size=64, layer_num=1, **LATENT)
    pool = pair(full, window, [0], [1])
    assert isinstance(pool, MLALatent)
    assert explain(pool, MLALatent) == []
    assert (pool.kv_lora_rank, pool.qk_rope_head_dim, pool.kv_cache_dim) == (512, 64, 576)
    for capability in (ScaledWrite, IndexerCapable, MHARows):
        assert not has(pool, capability)
    assert not hasattr(pool, "head_num")


def test_index_keys_come_with_a_leaf_that_keeps_some() -> None:
    for pool in (latent_pair(), pair(*indexed_and_plain(), [0, 2], [1])):
        assert isinstance(pool, IndexerCapable)
        assert explain(pool, IndexerCapable) == []
    assert isinstance(latent_pair(), MLALatent)
    plain = pair(*two(ForeignLeaf), [0], [1])
    assert not isinstance(plain, IndexerCapable)
    assert not hasattr(plain, "set_index_k_scale_buffer")


def test_index_keys_are_routed_by_global_id() -> None:
    full, window = indexed_and_plain()
    pool = pair(full, window, [0, 2], [1])
    key = torch.tensor([[7, 8]], dtype=torch.uint8)
    pool.set_index_k_scale_buffer(2, torch.tensor([5]), key, torch.tensor([0.5]))
    assert full.index_k_with_scale_buffer[1][1, 2:4].tolist() == [7, 8]
    assert not full.index_k_with_scale_buffer[0].any()
    assert pool.get_index_k_with_scale_buffer(2) is full.index_k_with_scale_buffer[1]
    found, scales = pool.get_index_k_scale_buffer(
        2, torch.tensor([2]), torch.tensor([[1]]), seq_len_sum=2, max_seq_len=2
    )
    assert found.tolist() == [[0, 0], [7, 8]]
    assert scales.view(torch.float32).flatten().tolist() == [0.0, 0.5]
    assert [b.shape[0] for b in pool.index_k_with_scale_buffer] == [3, 0, 3]
    assert (pool.index_head_dim, pool.index_page_size, pool.index_kpool) == (2, 4, 1)
    assert pool.get_index_k_with_scale_buffer(1).shape == (0, 24)
    with pytest.raises(ValueError, match=r"layer_id=1 keeps no index keys, the layers \[0, 2\] do"):
        pool.set_index_k_scale_buffer(1, torch.tensor([5]), key, torch.tensor([0.5]))
    with pytest.raises(ValueError, match="layer_id=1 keeps no index keys"):
        pool.get_index_k_scale_buffer(1, torch.tensor([2]), torch.tensor([[1]]), 2, 2)
    with pytest.raises(ValueError, match=r"layer_id=5 is not in this pool, which owns \[0, 1, 2\]"):
        pool.set_index_k_scale_buffer(5, torch.tensor([5]), key, torch.tensor([0.5]))


def test_what_one_leaf_cannot_the_pair_cannot() -> None:
    able, unable = (
        ForeignLeaf(size=8, layer_num=1, **ROWS),
        DoorsOnlyLeaf(size=8, layer_num=1, **ROWS),
    )
    pool = pair(able, unable, [0], [1])
    assert isinstance(pool, SWAComposite)
    for capability in OF_BOTH_LEAVES:
        assert not has(pool, capability), capability.__name__
    foreign = pair(able, ForeignLeaf(size=8, layer_num=1, **ROWS), [0], [1])
    able_too: list[type] = [Transferable, StateTransferable, HostCopyable, Movable]
    for capability in able_too:
        assert has(foreign, capability), capability.__name__
    silent: list[type] = [SizeReporting, DeclaresTraits, DeclaresRegions, ScaledWrite]
    for capability in silent:
        assert not has(foreign, capability), capability.__name__


def test_a_leaf_without_a_layer_has_no_say() -> None:
    empty = DoorsOnlyLeaf(size=8, layer_num=0, **ROWS)
    pool = pair(MHALeaf(size=8, layer_num=1, **ROWS), empty, [3], [])
    for capability in OF_BOTH_LEAVES:
        assert has(pool, capability), capability.__name__
    pool.move_kv_cache(torch.tensor([2]), torch.tensor([1]))
    assert pool.get_state_buf_infos() == ([], [], [])


def test_a_combination_is_one_class_with_a_name_to_read() -> None:
    assert type(small()) is type(small())
    assert type(small()) is not type(latent_pair())
    assert type(small(ForeignLeaf)).__name__ == (
        "SWAPool[Transferable, LayerIdReporting, HostCopyable, Movable]"
    )
    assert type(small(DoorsOnlyLeaf)).__name__ == "SWAPool"


def test_traits_say_what_the_pair_is() -> None:
    traits = small().pool_traits
    assert (traits.kind, traits.layout, traits.swa_storage) == ("swa", "composite", "mapped_pool")
    assert (traits.state_index_space, traits.index_scheme) == ("swa_pages", "none")
    latent = latent_pair().pool_traits
    assert (latent.replication, latent.index_scheme) == ("tp_replicated", "dsa_fp8_scale")
    assert latent.transfer_layout == "component_groups"
