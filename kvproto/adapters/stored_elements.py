"""What the elements of a leaf mean, as a vendor's refusals ask of requests."""

from __future__ import annotations

from kvproto.protocols import DSALeafRequest, LeafRequest, SparseIndexLeafRequest

__all__ = ["stored_elements"]


def stored_elements(request: LeafRequest) -> dict[str, str]:
    """The names of torch's dtypes, by the field of the request that says so."""
    stored = {"dtype": str(request.dtype)}
    match request:
        case SparseIndexLeafRequest():
            stored["index_dtype"] = str(request.stored_index_dtype)
        case DSALeafRequest():
            stored["index_dtype"] = f"torch.{request.index_element}"
        case _:
            pass
    return stored
