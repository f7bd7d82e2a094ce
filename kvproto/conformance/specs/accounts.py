"""Allocators, state slots and tables of rows: few enough slots that all of them are tried."""

from __future__ import annotations

from typing import Any

import torch

from kvproto.protocols import (
    AllocatorKind,
    AllocatorRequest,
    HiSparseAllocatorRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    StatePoolRequest,
    StateRequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
    SWARingAllocatorRequest,
    VirtualIdsRequest,
)

from .spec import Spec

__all__ = ["ACCOUNT_SPECS"]


def _slots(kind: AllocatorKind, pages: int, page_size: int, *, need_sort: bool = False) -> Spec:
    request = AllocatorRequest(
        kind=kind,
        size=pages * page_size,
        page_size=page_size,
        device="cpu",
        need_sort=need_sort,
    )
    name = "alloc-token" if kind == "token" else f"alloc-page{page_size}"
    return Spec(f"{name}{'-sorted' if need_sort else ''}", request)


def _pair(
    name: str, pages: int, swa_pages: int, page_size: int, *, need_sort: bool = False
) -> Spec:
    request = SWAAllocatorRequest(
        size=pages * page_size,
        size_swa=swa_pages * page_size,
        page_size=page_size,
        device="cpu",
        need_sort=need_sort,
    )
    return Spec(f"pair-{name}", request)


def _device_subset(name: str, pages: int, page_size: int, **options: Any) -> Spec:
    request = HiSparseAllocatorRequest(
        size=pages * page_size, page_size=page_size, device="cpu", **options
    )
    return Spec(f"hisparse-{name}", request)


def _state_rows(
    name: str, rows: int, positions: Any = 2, initial: Any = 0, pre_alloc_size: int = 0
) -> Spec:
    """Enough state slots for all rows and some to spare, as a prefix cache needs."""
    table = RequestPoolRequest(
        size=rows, max_context_len=6, device="cpu", pre_alloc_size=pre_alloc_size
    )
    count = rows + table.pre_alloc_size + 3
    state = StatePoolRequest(
        size=count * (1 + initial),
        mamba_layer_ids=(4, 6),
        conv_state_shape=((2, 3),),
        temporal_state_shape=(2, 2),
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    request = StateRequestPoolRequest(
        rows=table,
        state=state,
        mamba_ping_pong_track_buffer_size=positions,
        mamba_initial_tracking_slots=initial,
        start_layer=4,
    )
    return Spec(f"rows-state{name}", request)


def _beside_rings(name: str, pages: int, page_size: int, ring: int) -> Spec:
    full = AllocatorRequest(
        kind="token" if page_size == 1 else "paged",
        size=pages * page_size,
        page_size=page_size,
        device="cpu",
    )
    rows = RequestPoolRequest(size=3, max_context_len=4, device="cpu", pre_alloc_size=1)
    return Spec(
        f"beside-rings-{name}",
        SWARingAllocatorRequest(full=full, rows=rows, swa_req_ring_size=ring),
    )


def _sharded(name: str, pages: int, page_size: int, ranks: int, *, need_sort: bool = False) -> Spec:
    request = ShardedAllocatorRequest(
        size_per_rank=pages * page_size,
        page_size=page_size,
        shard_size=ranks,
        device="cpu",
        need_sort=need_sort,
    )
    return Spec(f"interleaved-{name}", request)


ACCOUNT_SPECS: tuple[Spec, ...] = (
    _slots("token", 9, 1),
    _slots("token", 9, 1, need_sort=True),
    _slots("paged", 8, 1),
    _slots("paged", 9, 4),
    _slots("paged", 9, 4, need_sort=True),
    _slots("paged", 7, 64),
    _pair("page1", 12, 7, 1),
    _pair("page4", 12, 7, 4),
    _pair("page4-sorted", 12, 7, 4, need_sort=True),
    _pair("page4-equal", 8, 8, 4),
    _pair("page64", 9, 7, 64),
    Spec("pure-window", PureSWAAllocatorRequest(size_swa=9, device="cpu")),
    Spec("pure-window-sorted", PureSWAAllocatorRequest(size_swa=9, device="cpu", need_sort=True)),
    _device_subset("page1", 7, 1),
    _device_subset("page4", 7, 4),
    _device_subset("page4-sorted-ratio3", 6, 4, need_sort=True, host_to_device_ratio=3),
    _device_subset("page64", 6, 64),
    _beside_rings("page1", 9, 1, 5),
    _beside_rings("page4", 8, 4, 6),
    _sharded("page1", 6, 1, 2),
    _sharded("page4-three-ranks", 5, 4, 3),
    _sharded("page4-sorted", 6, 4, 2, need_sort=True),
    Spec("virtual-page1", VirtualIdsRequest(size=9, page_size=1, device="cpu")),
    Spec("virtual-page4", VirtualIdsRequest(size=36, page_size=4, device="cpu")),
    Spec("state-slots", StateSlotsRequest(size=6, device="cpu")),
    Spec("rows", RequestPoolRequest(size=4, max_context_len=8, device="cpu")),
    Spec(
        "rows-pre-alloc",
        RequestPoolRequest(size=3, max_context_len=5, device="cpu", pre_alloc_size=2),
    ),
    _state_rows("", 4),
    _state_rows("-snapshots", 3, initial=2),
    _state_rows("-one-snapshot", 3, positions=1, initial=1),
    _state_rows("-lazy-snapshots", 3, initial=1),
    _state_rows("-pre-alloc", 3, pre_alloc_size=2),
)
"""Every kind of account."""
