"""Contracts between KV-cache pools and whoever uses them: can it, and what is it?"""

from ._ask import CapabilityError, adopt, explain, forget, require, supports
from ._capability import Capability
from .allocator import SlotAllocator
from .allocator_requests import (
    HiSparseAllocatorRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)
from .bare_requests import KeyOnlyLeafRequest, NoOpLeafRequest
from .block_scaled import BlockScaled
from .checkpoint_scale import checkpoint_scale
from .composite import Composite
from .composite_requests import (
    HybridPoolRequest,
    PoolRequest,
    StatePoolRequest,
    SWAPoolRequest,
)
from .compressed import CompressStates, DSV4Compressed
from .compressed_requests import CompressedPoolRequest
from .declares import WantedTraits, declares, traits_have
from .either import either
from .fallback import Fallback
from .fp4_workspace import FP4Workspace
from .fused_draft import FusedDraft
from .head_requests import MHALeafRequest, SparseIndexLeafRequest
from .hisparse import HiSparse
from .hisparse_allocator import HiSparseAllocator
from .host_copy import HostCopyable
from .host_layout import HostLayout, HostRegion, HostSpan
from .host_mirror import HostMirrorable
from .hybrid import HybridComposite
from .index_key_rows import IndexKeyRows, ScaledIndexKeyRows
from .indexer import IndexerCapable
from .key_only import KeyOnly
from .kpool_tail import KPoolTail
from .latent_requests import DSALeafRequest, MLALeafRequest, PageShards
from .layer import AttentionLayer, LayerTransferCounter, WriteLocation
from .layer_sharded import LayerOwner, LayerSharded
from .layout import ELEMENT_BYTES, Axis, AxisName, ElementType, Field, FieldName, Tile, row_major
from .leaf import KVLeaf, KVPool
from .mamba_request_pool import StateRequestPool
from .mha import MHARows
from .mla import LatentRows, MLALatent
from .movable import Movable
from .page_envelope import PageEnvelope, PageEnvelopeView
from .page_sharded import PagePlacement, PageShard, PageSharded
from .paged_allocator import PagedAllocator
from .platform import (
    DSARows,
    HeadLayout,
    IndexKeys,
    LatentLayout,
    Platform,
    PlatformCapabilities,
    Subsystem,
)
from .post_capture import PostCaptureBacked
from .qsa import QSAIndexed
from .qsa_requests import QSAPoolRequest
from .regions import (
    BufferRegion,
    DeclaresRegions,
    Fingerprint,
    buf_infos,
    peer_differences,
    registered_spans,
)
from .request_bytes import bytes_of_pool, bytes_of_state, bytes_per_state_slot, bytes_per_token
from .request_pool import RequestPool
from .request_ring import RequestRingSWA
from .requests import AllocatorKind, AllocatorRequest, Declined, LeafRequest
from .resumable import Resumable
from .ring_requests import SWARingAllocatorRequest, SWARingPoolRequest
from .sharded_allocator import ShardedAllocator
from .sharded_requests import ShardedAllocatorRequest
from .size_reporting import SizeReporting
from .sparse_index import SparseIndexed
from .state_pool import StatePool, StateSlotAllocator
from .state_requests import StateRequestPoolRequest
from .state_transfer import StateSliceable, StateTransferable
from .subsystem import SubsystemPlatform, SubsystemPools, SubsystemRequest
from .swa import SWACapable
from .swa_allocator import SWAAllocator
from .swa_composite import SWAComposite
from .traits import (
    BLOCK_SCALED,
    SCALE_BLOCKS,
    TRAIT_DOMAINS,
    DeclaresTraits,
    Fp8Variant,
    IdSpace,
    IndexLayout,
    IndexScheme,
    Kind,
    Layout,
    PoolTraits,
    QuantScheme,
    ReadDoor,
    Replication,
    Role,
    RowUnit,
    ScaleLayout,
    StateIndexSpace,
    SwaStorage,
    TransferLayout,
)
from .transferable import LayerIdReporting, Transferable
from .unified_requests import UnifiedBufferRequest, unified_entry_bytes
from .virtual_ids import VirtualIdAllocator
from .virtual_requests import VirtualIdsRequest
from .write_options import DCPMaskedWrite, LayerOverrideWrite, PrefixValidCommit, ScaledWrite

__all__ = [
    "BLOCK_SCALED",
    "ELEMENT_BYTES",
    "SCALE_BLOCKS",
    "TRAIT_DOMAINS",
    "AllocatorKind",
    "AllocatorRequest",
    "AttentionLayer",
    "Axis",
    "AxisName",
    "BlockScaled",
    "BufferRegion",
    "Capability",
    "CapabilityError",
    "Composite",
    "CompressStates",
    "CompressedPoolRequest",
    "DCPMaskedWrite",
    "DSALeafRequest",
    "DSARows",
    "DSV4Compressed",
    "DeclaresRegions",
    "DeclaresTraits",
    "Declined",
    "ElementType",
    "FP4Workspace",
    "Fallback",
    "Field",
    "FieldName",
    "Fingerprint",
    "Fp8Variant",
    "FusedDraft",
    "HeadLayout",
    "HiSparse",
    "HiSparseAllocator",
    "HiSparseAllocatorRequest",
    "HostCopyable",
    "HostLayout",
    "HostMirrorable",
    "HostRegion",
    "HostSpan",
    "HybridComposite",
    "HybridPoolRequest",
    "IdSpace",
    "IndexKeyRows",
    "IndexKeys",
    "IndexLayout",
    "IndexScheme",
    "IndexerCapable",
    "KPoolTail",
    "KVLeaf",
    "KVPool",
    "KeyOnly",
    "KeyOnlyLeafRequest",
    "Kind",
    "LatentLayout",
    "LatentRows",
    "LayerIdReporting",
    "LayerOverrideWrite",
    "LayerOwner",
    "LayerSharded",
    "LayerTransferCounter",
    "Layout",
    "LeafRequest",
    "MHALeafRequest",
    "MHARows",
    "MLALatent",
    "MLALeafRequest",
    "Movable",
    "NoOpLeafRequest",
    "PageEnvelope",
    "PageEnvelopeView",
    "PagePlacement",
    "PageShard",
    "PageSharded",
    "PageShards",
    "PagedAllocator",
    "Platform",
    "PlatformCapabilities",
    "PoolRequest",
    "PoolTraits",
    "PostCaptureBacked",
    "PrefixValidCommit",
    "PureSWAAllocatorRequest",
    "QSAIndexed",
    "QSAPoolRequest",
    "QuantScheme",
    "ReadDoor",
    "Replication",
    "RequestPool",
    "RequestPoolRequest",
    "RequestRingSWA",
    "Resumable",
    "Role",
    "RowUnit",
    "SWAAllocator",
    "SWAAllocatorRequest",
    "SWACapable",
    "SWAComposite",
    "SWAPoolRequest",
    "SWARingAllocatorRequest",
    "SWARingPoolRequest",
    "ScaleLayout",
    "ScaledIndexKeyRows",
    "ScaledWrite",
    "ShardedAllocator",
    "ShardedAllocatorRequest",
    "SizeReporting",
    "SlotAllocator",
    "SparseIndexLeafRequest",
    "SparseIndexed",
    "StateIndexSpace",
    "StatePool",
    "StatePoolRequest",
    "StateRequestPool",
    "StateRequestPoolRequest",
    "StateSliceable",
    "StateSlotAllocator",
    "StateSlotsRequest",
    "StateTransferable",
    "Subsystem",
    "SubsystemPlatform",
    "SubsystemPools",
    "SubsystemRequest",
    "SwaStorage",
    "Tile",
    "TransferLayout",
    "Transferable",
    "UnifiedBufferRequest",
    "VirtualIdAllocator",
    "VirtualIdsRequest",
    "WantedTraits",
    "WriteLocation",
    "adopt",
    "buf_infos",
    "bytes_of_pool",
    "bytes_of_state",
    "bytes_per_state_slot",
    "bytes_per_token",
    "checkpoint_scale",
    "declares",
    "either",
    "explain",
    "forget",
    "peer_differences",
    "registered_spans",
    "require",
    "row_major",
    "supports",
    "traits_have",
    "unified_entry_bytes",
]
