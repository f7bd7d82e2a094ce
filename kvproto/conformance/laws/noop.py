"""Pools that keep nothing: what they may cost, what they show, and what they must not offer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from kvproto.protocols import (
    DeclaresTraits,
    Declined,
    HostCopyable,
    KVPool,
    MHARows,
    Movable,
    SizeReporting,
    supports,
)

from ..bare_bench import NoOpBench
from ..broken import LawBroken
from ..law import has_layers, law
from ..not_asked import NotAsked
from ..storage import owned_storages

_NEED_ROWS = (KVPool, Movable, HostCopyable)


@law(
    "noop.offers-nothing",
    check="set the write door, moves and host copies to None: what is dropped is lost in silence",
)
def offers_nothing(bench: NoOpBench) -> None:
    """A pool that keeps no rows offers nothing that needs them, so that no row is lost unseen."""
    for capability in _NEED_ROWS:
        got = supports(bench.pool, capability)
        bench.expect(f"isinstance(pool, {capability.__name__})", expected=False, got=got)


@law(
    "noop.allocates-nothing",
    SizeReporting,
    check="allocate one page at most, and report what tokens take: nothing",
)
def allocates_nothing(bench: NoOpBench) -> None:
    """What is allocated does not grow with the tokens or the layers, and no token is charged."""
    request = bench.request
    wide = replace(request, size=64 * request.size, layer_num=request.layer_num + 3)
    pool = bench.build(wide)
    if isinstance(pool, Declined):
        raise NotAsked(f"the factory declines {wide.size} slots: {pool.reason}")
    widths = request.head_dim, request.value_head_dim
    page = sum(widths) * request.head_num * request.page_size * request.dtype.itemsize
    owned = sum(owned_storages(pool, 1).values())
    if owned > page:
        raise LawBroken(
            f"a pool of {wide.size} slots and {wide.layer_num} layers",
            expected=f"at most {page} bytes, a page of keys and one of values",
            got=f"{owned} bytes",
        )
    told = (pool.get_kv_size_bytes(), float(pool.mem_usage))
    bench.expect("get_kv_size_bytes(), mem_usage", expected=((0, 0), 0.0), got=told)


@law(
    "noop.placeholder",
    MHARows,
    applies=has_layers,
    check="give every layer zeros of one page: backends view them as [-1, page, heads, width]",
)
def placeholder(bench: NoOpBench) -> None:
    """The read doors show one page of zeros for the stage's layers, and raise for every other."""
    request = bench.request
    doors = ("get_key_buffer", request.head_dim), ("get_value_buffer", request.value_head_dim)
    for name, width in doors:
        read = getattr(bench.pool, name)
        for layer_id in bench.layer_ids:
            shown: torch.Tensor = read(layer_id)
            told = (tuple(shown.shape), shown.dtype, bool(shown.float().any()))
            shape = (request.page_size, request.head_num, width)
            bench.expect(f"{name}({layer_id})", expected=(shape, request.dtype, False), got=told)
        for layer_id in (request.start_layer - 1, request.end_layer):
            bench.expect_raises(
                f"{name}({layer_id})",
                partial(read, layer_id),
                ValueError,
                IndexError,
                KeyError,
            )


@law(
    "noop.geometry",
    MHARows,
    check="keep the size that was asked for: the scheduler admits requests by it",
)
def geometry(bench: NoOpBench) -> None:
    """A pool that keeps nothing reports the tokens, layers and widths it was asked for."""
    request, pool = bench.request, bench.pool
    names = ("size", "page_size", "dtype", "layer_num", "start_layer", "end_layer")
    expected = {name: getattr(request, name) for name in names}
    expected |= {"head_num": request.head_num, "head_dim": request.head_dim}
    expected |= {"v_head_dim": request.value_head_dim}
    got = {name: getattr(pool, name) for name in expected}
    bench.expect("the pool's geometry", expected=expected, got=got)
    bench.expect("get_v_head_dim()", expected=request.value_head_dim, got=pool.get_v_head_dim())


@law(
    "noop.traits",
    DeclaresTraits,
    check="declare kind='noop': consumers ask stores_kv before they count on a row",
)
def traits(bench: NoOpBench) -> None:
    """A pool that keeps nothing says so."""
    told = bench.pool.pool_traits
    bench.expect(
        "pool_traits.kind, stores_kv", expected=("noop", False), got=(told.kind, told.stores_kv)
    )
