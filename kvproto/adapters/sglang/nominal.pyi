# pyright: basic, reportMissingImports=false
"""What a type checker takes the names of `nominal.py` for."""

from typing import Literal, TypeAlias, TypeGuard, overload

from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator as SWAAllocator
from sglang.srt.mem_cache.allocator.unified_hybrid_swa import UnifiedSWAAllocatorBase
from sglang.srt.mem_cache.allocator.unified_mamba import UnifiedMambaTokenToKVPoolAllocator
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool as SWACapable
from sglang.srt.mem_cache.deepseek_v4_compress_state import CompressStatePool as CompressStates
from sglang.srt.mem_cache.deepseek_v4_memory_pool import (
    DeepSeekV4TokenToKVPool as DSV4Compressed,
)
from sglang.srt.mem_cache.deepseek_v4_memory_pool import HiSparseC4DevicePool
from sglang.srt.mem_cache.hisparse_memory_pool import (
    HiSparseDSATokenToKVPool,
    HiSparseMHAMainPool,
)
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool as IndexerCapable
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool as KPoolTail
from sglang.srt.mem_cache.memory_pool import HybridLinearKVPool as HybridComposite
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool as StateRequestPool
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool as MHARows
from sglang.srt.mem_cache.memory_pool import MiniMaxSparseKVPool as SparseIndexed
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool as MLALatent
from sglang.srt.mem_cache.minimax_m3_nvfp4_pool import MiniMaxM3Nvfp4KVPool
from sglang.srt.mem_cache.page_interleave_pool import (
    PageInterleaveMHATokenToKVPool,
    PageInterleaveMLATokenToKVPool,
)
from sglang.srt.mem_cache.pool_host.base import HostKVCache as SharedHostArena
from sglang.srt.mem_cache.qsa_kv_pool import QSATokenToKVPool as QSAIndexed
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool as SWAComposite
from sglang.srt.mem_cache.unified_draft_pool import UnifiedDraftKVPool, UnifiedDraftSWAKVPool
from typing_extensions import TypeIs, Unpack

from kvproto.protocols import WantedTraits

FusedDraft: TypeAlias = UnifiedDraftKVPool | UnifiedDraftSWAKVPool
PageSharded: TypeAlias = PageInterleaveMLATokenToKVPool | PageInterleaveMHATokenToKVPool
VirtualIdAllocator: TypeAlias = UnifiedMambaTokenToKVPoolAllocator | UnifiedSWAAllocatorBase
_OnDevice: TypeAlias = HiSparseDSATokenToKVPool | HiSparseMHAMainPool | HiSparseC4DevicePool

@overload
def declares(
    pool: object, /, *, layout: Literal["packed_pages"], id_space: Literal["device_slot"]
) -> TypeIs[HiSparseC4DevicePool]: ...
@overload
def declares(pool: object, /, *, id_space: Literal["device_slot"]) -> TypeIs[_OnDevice]: ...
@overload
def declares(
    pool: object, /, *, quant_scheme: Literal["nvfp4"]
) -> TypeGuard[MiniMaxM3Nvfp4KVPool]: ...  # its parts declare nvfp4 too
@overload
def declares(pool: object, /, **wanted: Unpack[WantedTraits]) -> bool: ...

__all__ = [
    "CompressStates",
    "DSV4Compressed",
    "FusedDraft",
    "HybridComposite",
    "IndexerCapable",
    "KPoolTail",
    "MHARows",
    "MLALatent",
    "PageSharded",
    "QSAIndexed",
    "SWAAllocator",
    "SWACapable",
    "SWAComposite",
    "SharedHostArena",
    "SparseIndexed",
    "StateRequestPool",
    "VirtualIdAllocator",
    "declares",
]
