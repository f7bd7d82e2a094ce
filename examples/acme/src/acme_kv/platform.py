"""Acme's device as a platform of kvproto's: what it builds, and why it does not build the rest."""

from __future__ import annotations

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from .facts import ACME
from .heads import AcmeHeads
from .indexed import AcmeIndexed
from .latents import AcmeLatents
from .pages import AcmePages
from .records import ELEMENTS

__all__ = ["AcmePlatform", "acme", "build"]


class AcmePlatform:
    """Leaves in records, and slots by the page; single tokens are counted by whoever asks."""

    name = "acme"
    capabilities = ACME

    def build_leaf(self, request: LeafRequest, /) -> AcmeHeads | AcmeLatents | Declined:
        """The leaf, or why Acme has none."""
        if reason := _unfit(request):
            return Declined(reason)
        match request:
            case MHALeafRequest():
                return AcmeHeads(request)
            case MLALeafRequest():
                return AcmeLatents(request)
            case DSALeafRequest():
                return AcmeIndexed(request)
            case SparseIndexLeafRequest():
                return Declined("Acme has no kernels for index rows by head")

    def build_allocator(self, request: AllocatorRequest, /) -> AcmePages | Declined:
        """The allocator, for pages."""
        if request.kind == "token":
            return Declined("Acme counts pages")
        return AcmePages(request)


def _unfit(request: LeafRequest) -> str:
    """What of the request Acme's records cannot hold; "" for nothing."""
    if request.dtype not in ELEMENTS:
        return f"Acme's kernels read bf16, fp16 and fp32 rows, not {request.dtype}"
    if request.enable_memory_saver:
        return "Acme's memory stays where it is: nothing pauses it"
    if request.layout not in ("nhd", "latent_rows"):
        return f"a layer of Acme's records is a view of token rows, not {request.layout!r}"
    match request:
        case MLALeafRequest(page_shards=shards) | DSALeafRequest(page_shards=shards) if shards:
            return "every rank keeps all pages"
        case DSALeafRequest():
            return _unfit_index(request)
        case _:
            return ""


def _unfit_index(request: DSALeafRequest) -> str:
    if (request.index_element, request.index_layout) != ("float8_e4m3fn", "token_rows"):
        return "index keys are e4m3fn, one after the other"
    if request.index_kpool > 1:
        return "each token has an index key of its own"
    if request.dcp_size > 1:
        return "a rank keeps the tokens it numbers"
    if request.host_to_device_ratio > 1:
        return "every token has its row on the device"
    return ""


def acme() -> AcmePlatform:
    """Acme's device, which every machine has; a real vendor looks for its own.

    Where that is absent, say in one line what is missing: `return Declined("acme_rt is not
    installed")`.
    """
    return AcmePlatform()


def build(request: object) -> AcmeHeads | AcmeLatents | AcmePages | Declined:
    """A leaf or an allocator, as the conformance kit asks for them."""
    match request:
        case MHALeafRequest() | MLALeafRequest() | DSALeafRequest() | SparseIndexLeafRequest():
            return acme().build_leaf(request)
        case AllocatorRequest():
            return acme().build_allocator(request)
        case _:
            return Declined("Acme builds leaves and allocators, and the core what is made of them")
