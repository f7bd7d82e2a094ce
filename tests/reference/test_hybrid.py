"""A hybrid pool: attention rows of some layers beside the state of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.debug import validate
from kvproto.protocols import (
    CapabilityError,
    Composite,
    DeclaresRegions,
    DeclaresTraits,
    Declined,
    DSALeafRequest,
    HostCopyable,
    HybridComposite,
    HybridPoolRequest,
    IndexerCapable,
    KVLeaf,
    KVPool,
    LayerIdReporting,
    LeafRequest,
    MHALeafRequest,
    MHARows,
    MLALatent,
    Movable,
    ScaledWrite,
    SizeReporting,
    StatePoolRequest,
    StateSliceable,
    StateTransferable,
    SWACapable,
    Transferable,
    buf_infos,
    explain,
)
from kvproto.reference.build_composite import build_reference_pool
from kvproto.reference.dsa import DSALeaf
from kvproto.reference.hybrid_parts import hybrid_pool
from kvproto.reference.mha import MHALeaf
from kvproto.reference.mla import MLALeaf
from kvproto.reference.state import RecurrentStatePool
from tests.reference.foreign import DoorsOnlyLeaf, ForeignIndexedLeaf, ForeignLeaf, layer
from tests.reference.sync_free import SyncFree

ROWS: dict[str, Any] = {
    "page_size": 4,
    "dtype": torch.bfloat16,
    "head_num": 1,
    "head_dim": 2,
    "device": "cpu",
}
LATENT: dict[str, Any] = {
    "page_size": 64,
    "dtype": torch.bfloat16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "device": "cpu",
}
STATE: dict[str, Any] = {
    "size": 3,
    "conv_state_shape": ((2, 4),),
    "temporal_state_shape": (2, 2, 2),
    "conv_dtype": torch.float32,
    "ssm_dtype": torch.float32,
    "device": "cpu",
}
GRANITE = [10, 13, 17, 27]
OF_THE_LEAF: list[type] = [
    Transferable,
    LayerIdReporting,
    HostCopyable,
    Movable,
    SizeReporting,
    DeclaresTraits,
    DeclaresRegions,
    ScaledWrite,
]


def state(*layer_ids: int) -> RecurrentStatePool:
    return RecurrentStatePool(mamba_layer_ids=layer_ids, **STATE)


def has(pool: object, capability: type) -> bool:
    """`isinstance`, after which the checkers know no more of the pool than before."""
    return isinstance(pool, capability)


def over(leaf: Any, ids: list[int], recurrent: tuple[int, ...] = (0, 11), **stage: Any) -> Any:
    """Typed as anything: the tests ask for each capability themselves."""
    return hybrid_pool(
        full_kv_pool=leaf, mamba_pool=state(*recurrent), full_attention_layer_ids=ids, **stage
    )


def granite(leaf: Any = MHALeaf) -> Any:
    return over(leaf(size=8, layer_num=4, **ROWS), GRANITE)


def rows(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.bfloat16).view(-1, 1, 1).expand(-1, 1, 2)


def keys(pool: Any, layer_id: int) -> list[float]:
    found: list[float] = pool.get_key_buffer(layer_id)[:, 0, 0].tolist()
    return found


@pytest.mark.parametrize(
    "capability",
    [KVPool, Composite, HybridComposite, StateSliceable, StateTransferable, *OF_THE_LEAF],
)
def test_over_an_mha_leaf_it_has(capability: type) -> None:
    assert has(granite(), capability)
    assert issubclass(type(granite()), capability), "settled on the class"
    assert explain(granite(), capability) == []


def test_over_an_mha_leaf_it_lacks() -> None:
    for capability in (KVLeaf, MHARows, MLALatent, IndexerCapable, SWACapable):
        assert not has(granite(), capability)


@pytest.mark.parametrize("capability", [MLALatent, IndexerCapable])
def test_index_keys_and_latent_doors_come_with_the_leaf(capability: type) -> None:
    """sglang#27679: over a DSA leaf it is IndexerCapable, over others it is not."""
    dsa = over(DSALeaf(size=64, layer_num=1, index_head_dim=128, **LATENT), [3])
    mla = over(MLALeaf(size=64, layer_num=1, **LATENT), [3])
    assert has(dsa, capability)
    assert explain(dsa, capability) == []
    assert has(mla, capability) is (capability is MLALatent)
    assert not has(granite(), capability)
    foreign = over(ForeignIndexedLeaf(size=8, layer_num=1, **ROWS), [3])
    assert has(foreign, capability) is (capability is IndexerCapable)


def test_what_the_leaf_cannot_the_hybrid_cannot() -> None:
    """sglang#33385: a capability is absent, or works."""
    pool = granite(DoorsOnlyLeaf)
    assert isinstance(pool, HybridComposite)
    for capability in OF_THE_LEAF:
        assert not has(pool, capability), capability.__name__
    assert type(pool).__name__ == "HybridLinearPool"
    assert type(granite(ForeignLeaf)).__name__ == (
        "HybridLinearPool[Transferable, LayerIdReporting, HostCopyable, Movable]"
    )
    assert type(granite()) is type(granite())


def test_geometry_is_there_without_a_layer_and_ids_never_wrap() -> None:
    """sglang#22605: layer 0 is recurrent, and asking it for a width was the only way to know."""
    pool = granite()
    assert (pool.v_head_dim, pool.get_v_head_dim(), pool.head_num, pool.head_dim) == (2, 2, 1, 2)
    assert (pool.start_layer, pool.end_layer, pool.layer_ids) == (0, 28, tuple(GRANITE))
    assert (pool.layer_num, pool.full_layer_nums) == (4, 4)
    assert len({pool.get_value_buffer(i).data_ptr() for i in GRANITE}) == 4
    for foreign in (0, 11, 14, 28, -1):
        words = rf"layer_id={foreign} is not in this pool, which owns \[10, 13, 17, 27\]"
        with pytest.raises(ValueError, match=words):
            pool.get_value_buffer(foreign)
        with pytest.raises(ValueError, match=words):
            pool.set_kv_buffer(layer(foreign), torch.tensor([4]), rows(1), rows(1))


def test_parts_are_named() -> None:
    pool = granite()
    assert pool.leaves() == (("full", pool.full_kv_pool), ("state", pool.mamba_pool))
    assert pool.leaf_for(17) == (pool.full_kv_pool, 2)
    assert dict(pool.full_attention_layer_id_mapping) == {10: 0, 13: 1, 17: 2, 27: 3}


def test_a_stage_without_attention_layers() -> None:
    pool = over(MHALeaf(size=8, layer_num=0, **ROWS), [], (4, 5))
    assert pool.get_contiguous_buf_infos() == ([], [], [])
    assert pool.get_kv_layer_ids() == []
    assert len(pool.get_state_buf_infos()[0]) == 4
    assert (pool.start_layer, pool.end_layer, pool.v_head_dim) == (4, 6, 2)
    with pytest.raises(ValueError, match="owns no layers"):
        pool.get_key_buffer(4)


@pytest.mark.parametrize("leaf", [MHALeaf, ForeignLeaf])
def test_writes_go_to_the_full_space(leaf: Any) -> None:
    pool = granite(leaf)
    loc, other = torch.tensor([5, 0]), torch.tensor([6, 0])
    given = layer(13)
    pool.set_kv_buffer(given, loc, rows(7, float("nan")), rows(8, 9))
    assert given.layer_id == 13
    assert keys(pool, 13) == [0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]
    both = SimpleNamespace(loc=loc, full_loc=other, swa_loc=loc, physical=True)
    pool.set_kv_buffer(layer(27), both, rows(7, 7), rows(8, 8))
    assert keys(pool, 27)[4:8] == [0, 0, 7, 0]
    pool.move_kv_cache(torch.tensor([9, 0]), torch.tensor([5, 5]))
    assert (keys(pool, 13)[9], keys(pool, 13)[0]) == (7, 0)
    assert pool.get_kv_buffer(13)[1][9, 0, 0] == 8


@pytest.mark.parametrize("leaf", [MHALeaf, ForeignLeaf])
def test_a_copy_carries_rows_and_state(leaf: Any) -> None:
    """sglang#22493: a retracted request came back with its rows and without its state."""
    pool = granite(leaf)
    assert pool.cpu_copy_carries_mamba is True
    loc, slot = torch.tensor([5, 6]), torch.tensor([2])
    pool.set_kv_buffer(layer(17), loc, rows(7, 8), rows(9, 10))
    for tensor in pool.mamba_pool.mamba_cache.persistent():
        tensor[:, 2] = 3
    copy = pool.get_cpu_copy(loc, mamba_indices=slot, req_pool_index=1)
    pool.get_key_buffer(17).zero_()
    pool.mamba_pool.clear_slots(slot)
    pool.load_cpu_copy(copy, torch.tensor([9, 4]), mamba_indices=torch.tensor([1]))
    assert (keys(pool, 17)[9], keys(pool, 17)[4]) == (7, 8)
    for tensor in pool.mamba_pool.mamba_cache.persistent():
        assert bool((tensor[:, 1] == 3).all())
        assert not tensor[:, [0, 2, 3]].any()


def test_half_a_request_is_never_restored() -> None:
    pool, loc, slot = granite(), torch.tensor([5]), torch.tensor([1])
    whole, rows_only = pool.get_cpu_copy(loc, mamba_indices=slot), pool.get_cpu_copy(loc)
    pool.set_kv_buffer(layer(17), loc, rows(7), rows(7))
    with pytest.raises(ValueError, match=r"the copy holds state; .*none were given"):
        pool.load_cpu_copy(whole, loc)
    with pytest.raises(ValueError, match=r"the copy holds no state; .* some were given"):
        pool.load_cpu_copy(rows_only, loc, mamba_indices=slot)
    assert keys(pool, 17)[5] == 7
    pool.load_cpu_copy(rows_only, loc)
    assert keys(pool, 17)[5] == 0


def test_rows_go_by_page_and_state_by_slot() -> None:
    pool = granite()
    leaf, recurrent = pool.full_kv_pool, pool.mamba_pool
    assert pool.get_contiguous_buf_infos() == leaf.get_contiguous_buf_infos()
    assert pool.get_contiguous_buf_infos()[1:] == ([48] * 8, [16] * 8)
    assert pool.get_kv_layer_ids() == GRANITE * 2
    assert pool.get_state_buf_infos() == recurrent.get_contiguous_buf_infos()
    assert pool.get_state_buf_infos()[1:] == ([128] * 4, [32] * 4)
    assert pool.get_state_layer_ids() == [0, 11, 0, 11]
    assert pool.get_state_dim_per_tensor() == [2] * 4
    assert pool.get_state_slice_outer_counts() == [1] * 4
    assert pool.get_state_conv_shard_groups() == [None] * 4
    assert pool.maybe_get_custom_mem_pool() is None
    exported = zip(pool.get_contiguous_buf_infos(), pool.get_state_buf_infos(), strict=True)
    assert buf_infos(pool.buffer_regions()) == tuple(a + b for a, b in exported)
    assert pool.buffer_regions()[0].layer_ids == tuple(GRANITE)


def test_index_rows_go_by_page_too() -> None:
    dsa = over(DSALeaf(size=64, layer_num=2, index_head_dim=128, **LATENT), [3, 7])
    assert dsa.get_contiguous_buf_infos()[2] == [73728, 73728, 8448, 8448]
    assert dsa.get_kv_layer_ids() == [3, 7, 3, 7]
    assert dsa.get_state_buf_infos()[2] == [32] * 4
    assert [b.shape[0] for b in dsa.index_k_with_scale_buffer] == [2, 2]
    assert dsa.get_index_k_with_scale_buffer(7) is dsa.full_kv_pool.index_k_with_scale_buffer[1]


def test_size_is_that_of_the_rows() -> None:
    """The state pool is the request pool's, and reports itself."""
    pool = granite()
    assert pool.get_kv_size_bytes() == pool.full_kv_pool.get_kv_size_bytes() == (192, 192)
    assert pool.mem_usage == pool.full_kv_pool.mem_usage


def test_latent_parts_are_routed() -> None:
    pool = over(MLALeaf(size=64, layer_num=2, **LATENT), [3, 7])
    pool.set_mla_kv_buffer(layer(7), torch.tensor([5]), torch.ones(1, 512), torch.ones(1, 64))
    latent, rope = pool.get_mla_kv_buffer(layer(7), torch.tensor([5, 0]), torch.float32)
    assert (latent[:, 0, 0].tolist(), rope[:, 0, 0].tolist()) == ([1, 0], [1, 0])
    assert not pool.get_key_buffer(3).any()


def test_doors_wait_by_place_in_the_stage() -> None:
    pool = over(MHALeaf(size=8, layer_num=2, **ROWS), [10, 13], (9, 12), start_layer=8)
    waited: list[int] = []
    pool.register_layer_transfer_counter(SimpleNamespace(wait_until=waited.append))
    pool.get_key_buffer(13)
    pool.get_value_buffer(10)
    assert waited == [5, 2]


def test_hot_doors_never_wait_for_the_device() -> None:
    pool, loc = granite(), torch.tensor([0, 5, -1])
    with SyncFree():  # type: ignore[no-untyped-call]
        pool.set_kv_buffer(layer(13), loc, rows(1, 2, 3), rows(1, 2, 3))
        pool.move_kv_cache(loc, loc.flip(0))


def test_traits_say_what_the_pool_is() -> None:
    traits = granite().pool_traits
    assert (traits.kind, traits.layout, traits.swa_storage) == (
        "hybrid_linear",
        "composite",
        "none",
    )
    assert traits.state_index_space == "state_slot"


def test_calls_are_checked_in_debug_mode() -> None:
    pool = validate(granite())
    assert has(pool, HybridComposite)
    pool.set_kv_buffer(layer(13), torch.tensor([5]), rows(1), rows(1))


def test_a_layer_may_attend_and_recur() -> None:
    both = over(MHALeaf(size=8, layer_num=1, **ROWS), [0])
    assert (both.start_layer, both.layer_ids) == (0, (0,))
    both.set_kv_buffer(layer(0), torch.tensor([5]), rows(1), rows(1))
    assert both.get_key_buffer(0)[5].any()
    assert 0 in both.mamba_pool.mamba_layer_ids


def test_what_does_not_fit_together_is_refused() -> None:
    leaf = MHALeaf(size=8, layer_num=1, **ROWS)
    with pytest.raises(ValueError, match="none twice, none negative"):
        over(MHALeaf(size=8, layer_num=2, **ROWS), [1, 1])
    with pytest.raises(ValueError, match="the full leaf has 1 layers, 2 ids name them"):
        over(leaf, [1, 2])
    with pytest.raises(ValueError, match="the stage has to hold the layers"):
        over(leaf, [1], start_layer=1)
    with pytest.raises(CapabilityError, match="the state side of a hybrid pool needs StatePool"):
        hybrid_pool(full_kv_pool=leaf, mamba_pool=leaf, full_attention_layer_ids=[1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def request(**changes: Any) -> HybridPoolRequest:
    fields: dict[str, Any] = {
        "full": MHALeafRequest(size=8, layer_num=2, **ROWS),
        "state": StatePoolRequest(mamba_layer_ids=(0, 2), **STATE),
        "full_attention_layer_ids": (1, 3),
    }
    return HybridPoolRequest(**fields | changes)


def test_a_request_is_built_over_whoevers_leaf() -> None:
    def vendor(given: LeafRequest) -> KVLeaf | Declined:
        dropped = ("end_layer", "enable_memory_saver", "v_head_dim")
        return ForeignLeaf(**{k: v for k, v in given.keywords().items() if k not in dropped})

    built = build_reference_pool(request(), build_leaf=vendor)
    assert isinstance(built, HybridComposite)
    assert isinstance(built.full_kv_pool, ForeignLeaf)
    assert built.mamba_pool.mamba_layer_ids == [0, 2]
    dsa = DSALeafRequest(size=64, layer_num=1, index_head_dim=128, **LATENT)
    ours = build_reference_pool(request(full=dsa, full_attention_layer_ids=(1,)))
    assert isinstance(ours, IndexerCapable)


def test_a_declined_leaf_declines_the_pool() -> None:
    refused = build_reference_pool(request(), build_leaf=lambda _: Declined("no memory"))
    assert refused == Declined("the attention leaf of a hybrid pool: no memory")


def test_requests_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="its leaf is asked for with layer_num=2"):
        request(full_attention_layer_ids=(1,))
