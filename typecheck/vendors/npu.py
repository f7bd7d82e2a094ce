"""Leaves of Huawei Ascend devices, and their platform."""

from __future__ import annotations

from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.platform import NPUPlatform
from kvproto.protocols import (
    DeclaresRegions,
    DeclaresTraits,
    HostCopyable,
    KVLeaf,
    LayerIdReporting,
    LayerOverrideWrite,
    MHARows,
    Movable,
    Platform,
    PrefixValidCommit,
    Resumable,
    ScaledWrite,
    SizeReporting,
    Transferable,
)

platform: type[Platform] = NPUPlatform

rows_leaf: type[KVLeaf] = NPUMHALeaf
rows_heads: type[MHARows] = NPUMHALeaf
rows_scaled: type[ScaledWrite] = NPUMHALeaf
rows_override: type[LayerOverrideWrite] = NPUMHALeaf
rows_commit: type[PrefixValidCommit] = NPUMHALeaf
rows_movable: type[Movable] = NPUMHALeaf
rows_host_copyable: type[HostCopyable] = NPUMHALeaf
rows_resumable: type[Resumable] = NPUMHALeaf
rows_size: type[SizeReporting] = NPUMHALeaf
rows_transferable: type[Transferable] = NPUMHALeaf
rows_layer_ids: type[LayerIdReporting] = NPUMHALeaf
rows_regions: type[DeclaresRegions] = NPUMHALeaf
rows_traits: type[DeclaresTraits] = NPUMHALeaf
