"""Leaves of Huawei Ascend devices, and their platform."""

from __future__ import annotations

from kvproto.adapters.npu.dsa import NPUDSALeaf, NPUScaledDSALeaf
from kvproto.adapters.npu.key_only import NPUKeyOnlyLeaf
from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.mla import NPUMLALeaf
from kvproto.adapters.npu.platform import NPUPlatform
from kvproto.adapters.npu.sparse import NPUSparseIndexLeaf
from kvproto.protocols import (
    DeclaresRegions,
    DeclaresTraits,
    HostCopyable,
    IndexKeyRows,
    KeyOnly,
    KVLeaf,
    LayerIdReporting,
    LayerOverrideWrite,
    MHARows,
    MLALatent,
    Movable,
    Platform,
    PrefixValidCommit,
    Resumable,
    ScaledIndexKeyRows,
    ScaledWrite,
    SizeReporting,
    SparseIndexed,
    StateTransferable,
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

latent_leaf: type[KVLeaf] = NPUMLALeaf
latent_parts: type[MLALatent] = NPUMLALeaf
latent_override: type[LayerOverrideWrite] = NPUMLALeaf
latent_commit: type[PrefixValidCommit] = NPUMLALeaf
latent_movable: type[Movable] = NPUMLALeaf
latent_host_copyable: type[HostCopyable] = NPUMLALeaf
latent_resumable: type[Resumable] = NPUMLALeaf
latent_size: type[SizeReporting] = NPUMLALeaf
latent_transferable: type[Transferable] = NPUMLALeaf
latent_layer_ids: type[LayerIdReporting] = NPUMLALeaf
latent_regions: type[DeclaresRegions] = NPUMLALeaf

keyed_leaf: type[KVLeaf] = NPUDSALeaf
keyed_rows: type[IndexKeyRows] = NPUDSALeaf
keyed_state: type[StateTransferable] = NPUDSALeaf
keyed_movable: type[Movable] = NPUDSALeaf
keyed_host_copyable: type[HostCopyable] = NPUDSALeaf
keyed_resumable: type[Resumable] = NPUDSALeaf
keyed_transferable: type[Transferable] = NPUDSALeaf
keyed_layer_ids: type[LayerIdReporting] = NPUDSALeaf
keyed_override: type[LayerOverrideWrite] = NPUDSALeaf
keyed_latent: type[MLALatent] = NPUDSALeaf
keyed_commit: type[PrefixValidCommit] = NPUDSALeaf
keyed_size: type[SizeReporting] = NPUDSALeaf
scaled_leaf: type[KVLeaf] = NPUScaledDSALeaf
scaled_latent: type[MLALatent] = NPUScaledDSALeaf
scaled_rows: type[ScaledIndexKeyRows] = NPUScaledDSALeaf
scaled_state: type[StateTransferable] = NPUScaledDSALeaf
scaled_host_copyable: type[HostCopyable] = NPUScaledDSALeaf
scaled_layer_ids: type[LayerIdReporting] = NPUScaledDSALeaf
scaled_override: type[LayerOverrideWrite] = NPUScaledDSALeaf
scaled_movable: type[Movable] = NPUScaledDSALeaf
scaled_commit: type[PrefixValidCommit] = NPUScaledDSALeaf
scaled_resumable: type[Resumable] = NPUScaledDSALeaf
scaled_size: type[SizeReporting] = NPUScaledDSALeaf
scaled_transferable: type[Transferable] = NPUScaledDSALeaf

sparse_leaf: type[KVLeaf] = NPUSparseIndexLeaf
sparse_rows: type[MHARows] = NPUSparseIndexLeaf
sparse_index: type[SparseIndexed] = NPUSparseIndexLeaf
sparse_scaled: type[ScaledWrite] = NPUSparseIndexLeaf
sparse_state: type[StateTransferable] = NPUSparseIndexLeaf
sparse_movable: type[Movable] = NPUSparseIndexLeaf
sparse_host_copyable: type[HostCopyable] = NPUSparseIndexLeaf
sparse_resumable: type[Resumable] = NPUSparseIndexLeaf
index_keys: type[KeyOnly] = NPUKeyOnlyLeaf
sparse_layer_ids: type[LayerIdReporting] = NPUSparseIndexLeaf
sparse_transferable: type[Transferable] = NPUSparseIndexLeaf
sparse_size: type[SizeReporting] = NPUSparseIndexLeaf
sparse_override: type[LayerOverrideWrite] = NPUSparseIndexLeaf
