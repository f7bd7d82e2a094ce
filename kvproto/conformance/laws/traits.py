"""What a pool says it is."""

from __future__ import annotations

import torch

from kvproto.protocols import (
    DeclaresTraits,
    DSALeafRequest,
    IndexerCapable,
    IndexKeyRows,
    KeyOnlyLeafRequest,
    KVLeaf,
    KVPool,
    LeafRequest,
    MHALeafRequest,
    MHARows,
    MLALatent,
    MLALeafRequest,
    SparseIndexed,
    SparseIndexLeafRequest,
    StateTransferable,
    supports,
)

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from ..not_asked import NotAsked
from .leaf import OWNED

_KEYED: tuple[type, ...] = (IndexerCapable, IndexKeyRows, SparseIndexed)

_BY_CAPABILITY = (
    (MHARows, ("tp_sharded", "layer_owned", "page_interleaved")),
    (MLALatent, ("tp_replicated", "layer_owned", "page_interleaved")),
)
"""Which ranks may hold rows by head, and rows that are shared by all heads."""


@law(
    "traits.request",
    DeclaresTraits,
    KVLeaf,
    check="declare what was built for this request, not what the class usually is",
)
def request(bench: KVBench) -> None:
    """The declared kind, schemes, fp8 variant and scale layout are those of the request."""
    traits = bench.pool.pool_traits
    for name, value in _expected(bench.request).items():
        got: object = getattr(traits, name)
        if got != value:
            raise LawBroken(f"pool_traits.{name}", expected=repr(value), got=repr(got))


@law(
    "traits.replication",
    DeclaresTraits,
    KVLeaf,
    check="a latent row is whole on every rank: declare tp_replicated, or who else holds it",
)
def replication(bench: KVBench) -> None:
    """Rows by head are declared sharded over ranks, latent rows whole on each, or as owned."""
    told = bench.pool.pool_traits.replication
    held = [each for each in _BY_CAPABILITY if supports(bench.pool, each[0])]
    if not held:
        raise NotAsked("it keeps neither rows by head nor latent rows")
    for capability, legal in held:
        if told not in legal:
            raise LawBroken(
                f"pool_traits.replication of a pool that is {capability.__name__}",
                expected=" or ".join(legal),
                got=told,
            )


_FP8_KEYS = ("dsa_fp8_scale", "dsa_fp8_scale_preshuffled")


@law(
    "traits.index",
    DeclaresTraits,
    KVLeaf,
    check="declare the scheme and the space of index keys where, and only where, there are any",
)
def index(bench: KVBench) -> None:
    """A leaf declares how its index keys are stored, and by which ids its state is addressed."""
    traits = bench.pool.pool_traits
    keyed = any(supports(bench.pool, capability) for capability in _KEYED)
    bench.expect(
        "pool_traits.index_scheme != 'none'", expected=keyed, got=traits.index_scheme != "none"
    )
    if traits.index_scheme in _FP8_KEYS and isinstance(bench.request, DSALeafRequest):
        expected = _FP8_KEYS[bench.request.index_layout == "preshuffled"]
        bench.expect("pool_traits.index_scheme", expected=expected, got=traits.index_scheme)
    if keyed or not supports(bench.pool, StateTransferable):
        expected = "kv_pages" if keyed else "none"
        bench.expect(
            "pool_traits.state_index_space", expected=expected, got=traits.state_index_space
        )


@law(
    "traits.read-door",
    DeclaresTraits,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="declare copy or scratch where a write through the tensor of a read door is lost",
)
def read_door(bench: KVBench) -> None:
    """What is written through the tensor of a read door is stored where that is an alias only."""
    k, v = bench.pair(1)
    bench.write(torch.tensor([1]), k, v)
    before = bench.stored("key").clone()
    shown = bench.pool.get_key_buffer(bench.layer_ids[0])
    shown.copy_(torch.zeros_like(shown))
    stored = not torch.equal(bench.stored("key"), before)
    declared = bench.pool.pool_traits.read_door
    if stored is not (declared == "alias"):
        raise LawBroken(
            "a write through get_key_buffer(...)",
            expected=f"{'stored' if not stored else 'lost'}, as read_door={declared!r} says",
            got="stored" if stored else "lost",
        )


def _expected(request: LeafRequest | KeyOnlyLeafRequest) -> dict[str, str]:
    variant = "none"
    name = str(request.dtype)
    if name.startswith("torch.float8_"):
        variant = name.removeprefix("torch.float8_")
    facts = {"quant_scheme": request.quant_scheme, "fp8_variant": variant}
    match request:
        case MHALeafRequest():
            lie = {"scale_layout": request.block_scale_layout}
            return facts | lie | {"kind": "mha", "layout": request.layout}
        case MLALeafRequest():
            return facts | {"kind": "mla"}
        case DSALeafRequest():
            return facts | {"kind": "dsa"}
        case KeyOnlyLeafRequest():
            return facts | {"kind": "key_only", "layout": request.layout}
        case SparseIndexLeafRequest():
            without = set(request.disable_value_sparse_layer_ids)
            scheme = "sparse_k" if set(request.sparse_layer_ids) <= without else "sparse_kv"
            told = {"kind": "sparse_index", "layout": request.layout, "index_scheme": scheme}
            return facts | told | {"state_index_space": "kv_pages"}
