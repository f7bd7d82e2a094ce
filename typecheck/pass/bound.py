"""Ask once, bind, and in hot paths test `is not None`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.protocols import KVLeaf, SWACapable, Transferable, require, supports
from typecheck.vendors.acme import AcmePool


@dataclass(frozen=True)
class BoundPools:
    leaf: KVLeaf
    swa: SWACapable | None
    transfer: Transferable


def bind(pool: object) -> BoundPools:
    return BoundPools(
        leaf=require(pool, KVLeaf, for_="attention"),
        swa=pool if supports(pool, SWACapable) else None,
        transfer=require(pool, Transferable, for_="PD prefill"),
    )


def window_locations(pools: BoundPools, loc: Tensor) -> Tensor:
    if pools.swa is not None:
        return pools.swa.translate_loc_from_full_to_swa(loc)
    return loc


def run() -> None:
    pool = AcmePool(
        size=8,
        page_size=4,
        dtype=torch.float32,
        head_num=1,
        head_dim=2,
        layer_num=1,
        device="cpu",
    )
    pools = bind(pool)
    assert pools.leaf is pool
    assert pools.swa is None
    assert torch.equal(window_locations(pools, torch.tensor([5])), torch.tensor([5]))
    assert pools.transfer.get_contiguous_buf_infos()[2] == [32, 32]
