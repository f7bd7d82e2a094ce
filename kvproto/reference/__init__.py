"""Reference pools: what a consumer uses in place of its engine's own, and a vendor wraps."""

from __future__ import annotations

from .build import build_reference_leaf
from .build_composite import build_reference_pool
from .core import CORE
from .dsa import DSALeaf
from .dsa_pooled import CompressedDSALeaf, PooledDSALeaf, dsa_leaf
from .dsa_split import SplitDSALeaf
from .dsa_subset import SubsetDSALeaf
from .fp4 import FP4Leaf
from .hisparse import DeviceLocations
from .hisparse_allocator import DeviceSubsetAllocator
from .hybrid import HybridLinearPool
from .hybrid_parts import hybrid_pool
from .interleaved_allocator import InterleavedAllocator
from .key_only import KeyOnlyLeaf
from .mha import MHALeaf
from .mla import MLALeaf
from .mla_fp4 import MLAFP4Leaf
from .mxfp8 import MXFP8Leaf
from .noop import NoOpLeaf
from .nvfp4 import NVFP4Leaf
from .page_envelope import PageEnvelopeLeaf
from .paged_allocator import PageAllocator
from .platforms import ReferencePlatform
from .pure_swa_allocator import PureSWAAllocator
from .request_pool import ReqToToken
from .sparse_index import SparseIndexLeaf
from .sparse_subset import SubsetSparseLeaf
from .state import RecurrentStatePool
from .state_request_pool import StateReqToToken
from .state_slot_allocator import StateSlots
from .swa import SWAPool
from .swa_allocator import SWAPairAllocator
from .swa_parts import swa_pool
from .swa_ring import SWARingPool, swa_ring_pool
from .swa_ring_allocator import SWARingAllocator
from .token_allocator import TokenAllocator
from .virtual_ids import VirtualIds

__all__ = [
    "CORE",
    "CompressedDSALeaf",
    "DSALeaf",
    "DeviceLocations",
    "DeviceSubsetAllocator",
    "FP4Leaf",
    "HybridLinearPool",
    "InterleavedAllocator",
    "KeyOnlyLeaf",
    "MHALeaf",
    "MLAFP4Leaf",
    "MLALeaf",
    "MXFP8Leaf",
    "NVFP4Leaf",
    "NoOpLeaf",
    "PageAllocator",
    "PageEnvelopeLeaf",
    "PooledDSALeaf",
    "PureSWAAllocator",
    "RecurrentStatePool",
    "ReferencePlatform",
    "ReqToToken",
    "SWAPairAllocator",
    "SWAPool",
    "SWARingAllocator",
    "SWARingPool",
    "SparseIndexLeaf",
    "SplitDSALeaf",
    "StateReqToToken",
    "StateSlots",
    "SubsetDSALeaf",
    "SubsetSparseLeaf",
    "TokenAllocator",
    "VirtualIds",
    "build_reference_leaf",
    "build_reference_pool",
    "dsa_leaf",
    "hybrid_pool",
    "swa_pool",
    "swa_ring_pool",
]
