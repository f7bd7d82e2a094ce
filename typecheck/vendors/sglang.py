"""Leaves behind the constructors of sglang's pools."""

from __future__ import annotations

from kvproto.adapters.sglang.leaves import SGLangDSALeaf, SGLangMHALeaf, SGLangMLALeaf
from kvproto.protocols import (
    DCPMaskedWrite,
    DeclaresRegions,
    DeclaresTraits,
    HostCopyable,
    IndexerCapable,
    KVLeaf,
    LatentRows,
    LayerIdReporting,
    LayerOverrideWrite,
    MHARows,
    Movable,
    PrefixValidCommit,
    Resumable,
    ScaledWrite,
    SizeReporting,
    StateTransferable,
    Transferable,
)

rows_kvleaf: type[KVLeaf] = SGLangMHALeaf
rows_mharows: type[MHARows] = SGLangMHALeaf
rows_scaled_write: type[ScaledWrite] = SGLangMHALeaf
rows_layer_override_write: type[LayerOverrideWrite] = SGLangMHALeaf
rows_dcpmasked_write: type[DCPMaskedWrite] = SGLangMHALeaf
rows_prefix_valid_commit: type[PrefixValidCommit] = SGLangMHALeaf
rows_transferable: type[Transferable] = SGLangMHALeaf
rows_layer_id_reporting: type[LayerIdReporting] = SGLangMHALeaf
rows_host_copyable: type[HostCopyable] = SGLangMHALeaf
rows_movable: type[Movable] = SGLangMHALeaf
rows_size_reporting: type[SizeReporting] = SGLangMHALeaf
rows_resumable: type[Resumable] = SGLangMHALeaf
rows_declares_traits: type[DeclaresTraits] = SGLangMHALeaf
rows_declares_regions: type[DeclaresRegions] = SGLangMHALeaf

latent_kvleaf: type[KVLeaf] = SGLangMLALeaf
latent_latent_rows: type[LatentRows] = SGLangMLALeaf
latent_layer_override_write: type[LayerOverrideWrite] = SGLangMLALeaf
latent_prefix_valid_commit: type[PrefixValidCommit] = SGLangMLALeaf
latent_transferable: type[Transferable] = SGLangMLALeaf
latent_layer_id_reporting: type[LayerIdReporting] = SGLangMLALeaf
latent_host_copyable: type[HostCopyable] = SGLangMLALeaf
latent_movable: type[Movable] = SGLangMLALeaf
latent_size_reporting: type[SizeReporting] = SGLangMLALeaf
latent_resumable: type[Resumable] = SGLangMLALeaf
latent_declares_traits: type[DeclaresTraits] = SGLangMLALeaf
latent_declares_regions: type[DeclaresRegions] = SGLangMLALeaf

indexed_kvleaf: type[KVLeaf] = SGLangDSALeaf
indexed_latent_rows: type[LatentRows] = SGLangDSALeaf
indexed_layer_override_write: type[LayerOverrideWrite] = SGLangDSALeaf
indexed_prefix_valid_commit: type[PrefixValidCommit] = SGLangDSALeaf
indexed_indexer_capable: type[IndexerCapable] = SGLangDSALeaf
indexed_transferable: type[Transferable] = SGLangDSALeaf
indexed_layer_id_reporting: type[LayerIdReporting] = SGLangDSALeaf
indexed_state_transferable: type[StateTransferable] = SGLangDSALeaf
indexed_host_copyable: type[HostCopyable] = SGLangDSALeaf
indexed_movable: type[Movable] = SGLangDSALeaf
indexed_size_reporting: type[SizeReporting] = SGLangDSALeaf
indexed_resumable: type[Resumable] = SGLangDSALeaf
indexed_declares_traits: type[DeclaresTraits] = SGLangDSALeaf
indexed_declares_regions: type[DeclaresRegions] = SGLangDSALeaf
