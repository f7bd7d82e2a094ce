"""A host copy of which one part does not fit is refused before a part that fits is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.sparse import NPUSparseIndexLeaf
from kvproto.protocols import supports
from kvproto.reference.copy_checks import ChecksCopies
from kvproto.reference.dsa_pooled import CompressedDSALeaf
from kvproto.reference.dsa_split import SplitDSALeaf
from kvproto.reference.dsa_subset import SubsetDSALeaf
from kvproto.reference.hybrid_parts import hybrid_pool
from kvproto.reference.mha import MHALeaf
from kvproto.reference.sparse_subset import SubsetSparseLeaf
from kvproto.reference.state import RecurrentStatePool
from tests.reference.block_scaled import mxfp8
from tests.reference.dsa_leaves import make as dsa
from tests.reference.foreign import ForeignLeaf
from tests.reference.test_half_copies import sparse, weighed
from tests.reference.window_pairs import ROWS, mapped, pair

LOC = torch.tensor([3, 4])


def leaf(kind: Any = MHALeaf, **changes: Any) -> Any:
    return kind(**({"size": 8, "layer_num": 1, **ROWS} | changes))


def window_pair(window: Any, full: Any = None) -> Any:
    whole = leaf() if full is None else full
    return mapped(pair(whole, window, [0], [1]), {3: 1, 4: 2})


def state(width: int = 4, dtype: torch.dtype = torch.float32) -> RecurrentStatePool:
    return RecurrentStatePool(
        size=3,
        mamba_layer_ids=[1],
        conv_state_shape=((2, width),),
        temporal_state_shape=(2, 2, 2),
        conv_dtype=dtype,
        ssm_dtype=torch.float32,
        device="cpu",
    )


def hybrid(recurrent: RecurrentStatePool, rows: Any = None) -> Any:
    return hybrid_pool(
        full_kv_pool=leaf() if rows is None else rows,
        mamba_pool=recurrent,
        full_attention_layer_ids=[0],
    )


def fill(buffers: list[Tensor]) -> None:
    for each in buffers:
        each.fill_(1)


def held(*leaves: Any) -> list[Tensor]:
    return [buffer for each in leaves for buffer in (*each.k_buffer, *each.v_buffer)]


@pytest.mark.parametrize("changes", [{"head_dim": 4}, {"head_num": 2}, {"layer_num": 2}])
def test_full_rows_stay_where_window_rows_do_not_fit(changes: dict[str, Any]) -> None:
    window = leaf(**changes)
    ids = list(range(1, 1 + window.layer_num))
    source = mapped(pair(leaf(), window, [0], ids), {3: 1, 4: 2})
    fill(held(source.full_kv_pool, source.swa_kv_pool))
    here = window_pair(leaf())
    with pytest.raises(ValueError, match="the copy holds"):
        here.load_cpu_copy(source.get_cpu_copy(LOC), LOC)
    assert not any(each.any() for each in held(here.full_kv_pool, here.swa_kv_pool))


def test_a_copy_without_full_rows_is_not_loaded_as_half_a_request() -> None:
    here = window_pair(leaf())
    copy = here.get_cpu_copy(LOC)
    with pytest.raises(ValueError, match="no full rows, there are 1 full layers; nothing was writ"):
        here.load_cpu_copy(replace(copy, full=None), LOC)


@pytest.mark.parametrize("other", [state(width=8), state(dtype=torch.bfloat16)])
def test_rows_stay_where_state_does_not_fit(other: RecurrentStatePool) -> None:
    source, here = hybrid(other), hybrid(state())
    fill(held(source.full_kv_pool))
    slots = torch.tensor([1])
    copy = source.get_cpu_copy(LOC, mamba_indices=slots)
    with pytest.raises(ValueError, match=r"the copy holds .* nothing was written"):
        here.load_cpu_copy(copy, LOC, mamba_indices=slots)
    assert not any(each.any() for each in held(here.full_kv_pool))


def test_state_stays_where_rows_do_not_fit() -> None:
    source, here = hybrid(state(), leaf(head_dim=4)), hybrid(state())
    fill(list(source.mamba_pool.mamba_cache.persistent()))
    slots = torch.tensor([1])
    with pytest.raises(ValueError, match=r"the copy holds .* nothing was written"):
        here.load_cpu_copy(source.get_cpu_copy(LOC, slots), LOC, slots)
    assert not any(each.any() for each in here.mamba_pool.mamba_cache.persistent())


def test_the_state_of_one_tensor_stays_where_another_does_not_fit() -> None:
    source, here, slots = state(), state(), torch.tensor([2])
    copy = source.get_cpu_copy(slots)
    ones = tuple(torch.ones_like(each) for each in copy.tensors)
    with pytest.raises(ValueError, match=r"the copy holds .* nothing was written"):
        here.load_cpu_copy(replace(copy, tensors=(*ones[:-1], ones[-1][..., :1])), slots)
    assert not any(each.any() for each in here.mamba_cache.persistent())


class OwnCopies(MHALeaf):
    """Copies of a form of its own, over a check that it inherits and that knows another."""

    def get_cpu_copy(self, indices: Tensor, *_: Any, **__: Any) -> Any:
        return [buffer[indices].clone() for buffer in self.k_buffer + self.v_buffer]

    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *_: Any, **__: Any) -> None:
        for buffer, rows in zip(self.k_buffer + self.v_buffer, kv_cache_cpu, strict=True):
            buffer[indices] = rows


def test_a_check_is_not_inherited_over_copies_of_another_form() -> None:
    pool = window_pair(leaf(OwnCopies), leaf(OwnCopies))
    for side in (pool.full_kv_pool, pool.swa_kv_pool):
        side.k_buffer[0].copy_(torch.arange(side.k_buffer[0].numel()).view_as(side.k_buffer[0]))
    before = pool.full_kv_pool.k_buffer[0].clone()
    copy = pool.get_cpu_copy(LOC)
    pool.full_kv_pool.k_buffer[0].zero_()
    pool.load_cpu_copy(copy, LOC)
    assert torch.equal(pool.full_kv_pool.k_buffer[0][LOC], before[LOC])


def test_a_vendor_s_leaf_without_a_check_is_loaded_as_it_was() -> None:
    foreign = leaf(ForeignLeaf)
    assert not supports(foreign, ChecksCopies)
    here = window_pair(foreign)
    fill(held(here.full_kv_pool))
    before = [each.clone() for each in held(here.full_kv_pool)]
    here.load_cpu_copy(here.get_cpu_copy(LOC), LOC)
    assert all(map(torch.equal, before, held(here.full_kv_pool)))


@pytest.mark.parametrize(
    "pool",
    [
        leaf(),
        mxfp8(),
        dsa(),
        weighed(),
        sparse(torch.bfloat16),
        state(),
        leaf(NPUMHALeaf, page_size=4),
    ],
    ids=lambda pool: type(pool).__name__,
)
def test_pools_of_this_repository_can_say_whether_a_copy_fits(pool: Any) -> None:
    nowhere = torch.empty(0, dtype=torch.int64)
    row: dict[str, Any] = {"req_pool_index": 1} if isinstance(pool, CompressedDSALeaf) else {}
    copy: Any = pool.get_cpu_copy(nowhere, **row)
    assert supports(pool, ChecksCopies)
    pool.check_cpu_copy(copy, nowhere, **row)
    with pytest.raises(ValueError, match="copy"):
        pool.check_cpu_copy(copy, torch.tensor([1]), **row)


@pytest.mark.parametrize("kind", [SplitDSALeaf, SubsetDSALeaf, SubsetSparseLeaf])
def test_what_copies_nothing_checks_nothing(kind: type) -> None:
    assert not issubclass(kind, ChecksCopies)
    assert issubclass(NPUSparseIndexLeaf, ChecksCopies)
