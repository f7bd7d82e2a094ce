"""What kernels of these devices do not read, said before anything is built."""

from __future__ import annotations

from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from ..stored_elements import stored_elements

__all__ = ["refusal"]

_HEAD_LAYOUTS = ("nhd", "paged_nhd")
_SCHEMES = ("none", "fp8_scaled", "dsa_fp8_packed")
_FP8 = "torch.float8_e4m3fn"
_STORED = ("torch.bfloat16", "torch.float16", "torch.float32", _FP8)


def refusal(request: object) -> str:
    """Why a leaf for kernels of the devices cannot hold what is asked for; "" where it can."""
    match request:
        case MHALeafRequest(layout=layout) if layout not in _HEAD_LAYOUTS:
            return f"layout={layout!r}: attention reads {' or '.join(map(repr, _HEAD_LAYOUTS))}"
        case DSALeafRequest(index_layout="preshuffled"):
            return "index_layout='preshuffled': index keys are read one after another"
        case MHALeafRequest() | MLALeafRequest() | DSALeafRequest() | SparseIndexLeafRequest():
            return _elements(request)
        case _:  # a caller may know more kinds of requests than there are of leaves
            return f"{type(request).__name__} is no platform's to build"


def _elements(request: LeafRequest) -> str:
    if request.quant_scheme not in _SCHEMES:
        scheme = request.quant_scheme
        return f"quant_scheme={scheme!r}: attention reads {', '.join(map(repr, _SCHEMES))}"
    for name, dtype in stored_elements(request).items():
        if "float8" in dtype and dtype != _FP8:
            return f"{name}={dtype}: of fp8 the devices have {_FP8} alone; ask for that"
        if dtype not in _STORED:
            return f"{name}={dtype}: rows are {', '.join(_STORED)}; ask for one of those"
    return ""
