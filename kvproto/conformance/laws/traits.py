"""What a pool says it is."""

from __future__ import annotations

from kvproto.protocols import (
    DeclaresTraits,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
)

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import law


@law(
    "traits.request",
    DeclaresTraits,
    KVLeaf,
    check="declare what was built for this request, not what the class usually is",
)
def request(bench: KVBench) -> None:
    """The declared kind, scheme and fp8 variant are those of the request."""
    traits = bench.pool.pool_traits
    for name, value in _expected(bench.request).items():
        got: object = getattr(traits, name)
        if got != value:
            raise LawBroken(f"pool_traits.{name}", expected=repr(value), got=repr(got))


def _expected(request: LeafRequest) -> dict[str, str]:
    variant = "none"
    if request.dtype.itemsize == 1 and request.dtype.is_floating_point:
        variant = str(request.dtype).removeprefix("torch.float8_")
    facts = {"quant_scheme": request.quant_scheme, "fp8_variant": variant}
    match request:
        case MHALeafRequest():
            return facts | {"kind": "mha", "layout": request.layout}
        case MLALeafRequest():
            return facts | {"kind": "mla"}
        case DSALeafRequest():
            return facts | {"kind": "dsa"}
