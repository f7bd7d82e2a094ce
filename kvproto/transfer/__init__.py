"""Pages to another process: what pools hold, what peers agree on, and which bytes go where.

And pages to host memory (`HostPool`).

Needs numpy, and msgspec for messages: `pip install kvproto[transfer]`.
"""

from .engines.engine import (
    Blocks,
    EngineError,
    EngineUnavailable,
    Registration,
    Span,
    TransferEngine,
    Write,
    WriteState,
)
from .engines.open_engine import ENGINES, EngineKind, open_engine
from .host import DevicePool, HostCapacity, HostPool, HostTier, LoadFailed, TierPages
from .manifests.describe import Heads, describe
from .manifests.manifest import (
    MANIFEST_VERSION,
    Conversion,
    IndexSpace,
    LeftOut,
    ManifestRegion,
    PoolManifest,
    PoolName,
    PoolPart,
)
from .manifests.message import decode_manifest, encode_manifest
from .manifests.refusal import ManifestError, NegotiationError, Refusal
from .manifests.split import Shard, Split
from .planning.conversion import convert_staged
from .planning.descriptors import Descriptors, descriptors
from .planning.negotiate import negotiate
from .planning.page_lists import PageLists
from .planning.plan import Direction, Pieces, PlannedEnd, RegionPair, SpacePages, TransferPlan
from .planning.staging import staging_bytes

__all__ = [
    "ENGINES",
    "MANIFEST_VERSION",
    "Blocks",
    "Conversion",
    "Descriptors",
    "DevicePool",
    "Direction",
    "EngineError",
    "EngineKind",
    "EngineUnavailable",
    "Heads",
    "HostCapacity",
    "HostPool",
    "HostTier",
    "IndexSpace",
    "LeftOut",
    "LoadFailed",
    "ManifestError",
    "ManifestRegion",
    "NegotiationError",
    "PageLists",
    "Pieces",
    "PlannedEnd",
    "PoolManifest",
    "PoolName",
    "PoolPart",
    "Refusal",
    "RegionPair",
    "Registration",
    "Shard",
    "SpacePages",
    "Span",
    "Split",
    "TierPages",
    "TransferEngine",
    "TransferPlan",
    "Write",
    "WriteState",
    "convert_staged",
    "decode_manifest",
    "describe",
    "descriptors",
    "encode_manifest",
    "negotiate",
    "open_engine",
    "staging_bytes",
]
