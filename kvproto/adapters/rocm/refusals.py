"""What kernels of these devices do not read, said before anything is built."""

from __future__ import annotations

from kvproto.protocols import (
    DSALeafRequest,
    Fp8Variant,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from ..stored_elements import stored_elements

__all__ = ["refusal"]

_HEAD_LAYOUTS = ("nhd", "vectorized_5d")
_SCHEMES = ("none", "fp8_scaled")
_UNSCALED = ("torch.bfloat16", "torch.float16", "torch.float32")
_TILE = 16


def refusal(request: object, fp8: Fp8Variant) -> str:
    """Why a leaf for kernels that read `fp8` cannot hold what is asked for; "" where it can."""
    match request:
        case MHALeafRequest():
            return _layout(request) or _elements(request, fp8)
        case DSALeafRequest():
            return _elements(request, fp8) or _index_pages(request)
        case MLALeafRequest() | SparseIndexLeafRequest():
            return _elements(request, fp8)
        case _:  # a caller may know more kinds of requests than there are of leaves
            return f"{type(request).__name__} is no platform's to build"


def _layout(request: MHALeafRequest) -> str:
    if request.layout in _HEAD_LAYOUTS:
        return ""
    return f"layout={request.layout!r}: attention reads {' or '.join(map(repr, _HEAD_LAYOUTS))}"


def _elements(request: LeafRequest, fp8: Fp8Variant) -> str:
    if request.quant_scheme == "dsa_fp8_packed":
        return "quant_scheme='dsa_fp8_packed': attention reads bare latents, ask for 'fp8_scaled'"
    if request.quant_scheme not in _SCHEMES:
        scheme = request.quant_scheme
        return f"quant_scheme={scheme!r}: attention reads {' or '.join(map(repr, _SCHEMES))}"
    for name, dtype in stored_elements(request).items():
        if "float8" in dtype and dtype != f"torch.float8_{fp8}":
            return (
                f"{name}={dtype}: the device's numbers are torch.float8_{fp8}, where the same byte "
                "is another one; ask for those"
            )
        if dtype not in (own := (*_UNSCALED, f"torch.float8_{fp8}")):
            return f"{name}={dtype}: rows are {', '.join(own)}; ask for one of those"
    return ""


def _index_pages(request: DSALeafRequest) -> str:
    """In tiles, or one key a page, which is where both layouts are the same."""
    keys = request.index_page_size
    if request.index_layout == "preshuffled" or keys == 1:
        return ""
    tiled = "ask for 'preshuffled'" if keys % _TILE == 0 else f"ask for pages of 1 or {_TILE} keys"
    return (
        f"index_layout={request.index_layout!r} in pages of {keys} index keys: they are read in "
        f"tiles of {_TILE} keys, or from pages of one; {tiled}"
    )
