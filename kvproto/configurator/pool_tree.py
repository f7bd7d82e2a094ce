"""The pools of a plan as a tree (needs `rich`, the `check` extra)."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from kvproto.protocols import (
    AllocatorRequest,
    CompressedPoolRequest,
    DSALeafRequest,
    Fallback,
    HiSparseAllocatorRequest,
    HybridPoolRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    NoOpLeafRequest,
    PureSWAAllocatorRequest,
    ShardedAllocatorRequest,
    SparseIndexLeafRequest,
    StatePoolRequest,
    SubsystemRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
    bytes_per_state_slot,
    bytes_per_token,
)

from .pool_plan import PlannedAllocator, PoolPlan
from .sizes_text import shown_bytes

__all__ = ["pool_tree"]

_BY_TOKEN = ("nhd", "latent_rows")
"""Layouts of rows one after another, which go without saying."""


def pool_tree(plan: PoolPlan) -> Tree:
    """A branch for each pool and for the allocator, and where the core may stand in."""
    first, end = plan.layers
    tree = Tree(Text(f"{plan.model_type}, layers {first} to {end - 1}", style="bold"))
    match plan.pool:
        case None:
            tree.add(_apart(plan.subsystem))
        case SWAPoolRequest(full=full, window=window):
            pair = tree.add("window pair")
            pair.add(f"full: {_leaf(full)}")
            pair.add(f"window: {_leaf(window)}")
        case SWARingPoolRequest(pair=SWAPoolRequest(full=full, window=window)):
            rings = tree.add("window rings")
            rings.add(f"full: {_leaf(full)}")
            rings.add(f"window: {_leaf(window)}")
        case HybridPoolRequest(full=full, state=state):
            hybrid = tree.add("hybrid")
            hybrid.add(f"full: {_leaf(full)}")
            hybrid.add(f"state: {_state(state)}")
        case NoOpLeafRequest():
            tree.add(f"{plan.pool.layer_num} layers that keep no rows, by the core")
        case leaf:
            tree.add(_leaf(leaf))
    if plan.state is not None and not isinstance(plan.pool, HybridPoolRequest):
        tree.add(f"state: {_state(plan.state)}")
    _draft(plan, tree)
    tree.add(f"allocator: {_allocator(plan.allocator)}")
    return tree


def _apart(request: SubsystemRequest | None) -> str:
    """What there is without a pool of layers: nothing, or a pool of compressed rows."""
    if not isinstance(request, CompressedPoolRequest):
        return "no layer keeps anything"
    ratios = sorted(set(request.compression_ratios))
    rows = f"{request.layer_num} layers, rows of {request.head_dim}"
    return f"compressed: {rows} for {', '.join(map(str, ratios))} tokens each, by the platform"


def _draft(plan: PoolPlan, tree: Tree) -> None:
    match plan.draft:
        case None:
            pass
        case SWAPoolRequest(full=full, window=window):
            pair = tree.add("draft: window pair")
            if full.layer_num:
                pair.add(f"full: {_leaf(full)}")
            slots = "the model's slots" if plan.draft_windows == "shared" else "slots of its own"
            pair.add(f"window, in {slots}: {_leaf(window)}")
        case HybridPoolRequest(full=leaf) | leaf:
            tree.add(f"draft: {_leaf(leaf)}")


def _allocator(asked: PlannedAllocator) -> str:
    match asked:
        case AllocatorRequest():
            return _pages(asked.size, asked.page_size) + _or_the_core(asked.fallback)
        case SWAAllocatorRequest():
            full = _pages(asked.size, asked.page_size)
            window = _pages(asked.size_swa, asked.page_size)
            return f"full {full}, window {window}" + _or_the_core(asked.fallback)
        case HiSparseAllocatorRequest():
            ids = _pages(asked.size_logical, asked.page_size)
            device = _pages(asked.size, asked.page_size)
            return f"ids for {ids}, {device} on the device" + _or_the_core(asked.fallback)
        case SWARingAllocatorRequest(full=full):
            rings = f"a ring of {asked.swa_req_ring_size:,} window slots for each request"
            return f"{_pages(full.size, full.page_size)}, {rings}" + _or_the_core(full.fallback)
        case ShardedAllocatorRequest():
            pages = _pages(asked.size_per_rank, asked.page_size)
            return f"{pages} of each of {asked.shard_size} ranks, by the core"
        case PureSWAAllocatorRequest():
            return f"window {_pages(asked.size, 1)}, by the core"


def _pages(size: int, page_size: int) -> str:
    return f"{size:,} slots" if page_size == 1 else f"{size // page_size:,} pages of {page_size}"


def _or_the_core(fallback: Fallback) -> str:
    return " (fallback: core)" if fallback == "core" else ""


def _leaf(leaf: LeafRequest) -> str:
    match leaf:
        case MHALeafRequest():
            rows = f"{leaf.head_num} heads of {leaf.head_dim}"
            if leaf.value_head_dim != leaf.head_dim:
                rows += f" and {leaf.value_head_dim}"
        case MLALeafRequest():
            rows = f"latent rows of {leaf.kv_lora_rank} + {leaf.qk_rope_head_dim}"
        case DSALeafRequest():
            rows = f"latent rows of {leaf.kv_cache_dim}, index keys of {leaf.index_head_dim}"
        case SparseIndexLeafRequest():
            sparse = len(leaf.index_layer_ids)
            rows = f"{leaf.head_num} heads of {leaf.head_dim}, index rows of {leaf.idx_head_dim}"
            rows += f" in {sparse}"
    stored = str(leaf.dtype).removeprefix("torch.")
    scheme = "" if leaf.quant_scheme == "none" else f" ({leaf.quant_scheme})"
    layout = "" if leaf.layout in _BY_TOKEN else f", {leaf.layout}"
    cost = shown_bytes(bytes_per_token(leaf))
    told = f"{leaf.layer_num} layers, {rows}, {stored}{scheme}{layout}: {cost} a token"
    return told + _or_the_core(leaf.fallback)


def _state(state: StatePoolRequest) -> str:
    cost = shown_bytes(bytes_per_state_slot(state))
    return f"{len(state.mamba_layer_ids)} layers, {state.size} slots of {cost}"
