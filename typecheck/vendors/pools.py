"""Vendor pools and the protocols they are for: a line each, and the checkers do the rest."""

from __future__ import annotations

from kvproto.protocols import (
    BlockScaled,
    FP4Workspace,
    HostCopyable,
    IndexerCapable,
    KeyOnly,
    KPoolTail,
    KVLeaf,
    LatentRows,
    LayerIdReporting,
    LayerOverrideWrite,
    MHARows,
    Movable,
    PageEnvelope,
    PageEnvelopeView,
    PrefixValidCommit,
    Resumable,
    ScaledWrite,
    SizeReporting,
    SparseIndexed,
    StateTransferable,
    Transferable,
)
from kvproto.reference import (
    CompressedDSALeaf,
    DSALeaf,
    FP4Leaf,
    KeyOnlyLeaf,
    MHALeaf,
    MLAFP4Leaf,
    MLALeaf,
    MXFP8Leaf,
    NoOpLeaf,
    NVFP4Leaf,
    PageEnvelopeLeaf,
    SparseIndexLeaf,
)
from typecheck.vendors.acme import AcmePool

reference_leaf: type[KVLeaf] = MHALeaf
reference_rows: type[MHARows] = MHALeaf
reference_transferable: type[Transferable] = MHALeaf
reference_commit: type[PrefixValidCommit] = MHALeaf
reference_host_copyable: type[HostCopyable] = MHALeaf

latent_leaf: type[KVLeaf] = MLALeaf
latent_rows: type[LatentRows] = MLALeaf
latent_override: type[LayerOverrideWrite] = MLALeaf
latent_commit: type[PrefixValidCommit] = MLALeaf
latent_movable: type[Movable] = MLALeaf
latent_size: type[SizeReporting] = MLALeaf
latent_transferable: type[Transferable] = MLALeaf

indexed_leaf: type[KVLeaf] = DSALeaf
indexed_rows: type[IndexerCapable] = DSALeaf
indexed_state: type[StateTransferable] = DSALeaf
indexed_resumable: type[Resumable] = DSALeaf
indexed_host_copyable: type[HostCopyable] = DSALeaf

envelope_leaf: type[KVLeaf] = PageEnvelopeLeaf
envelope_pages: type[PageEnvelope] = PageEnvelopeLeaf
envelope_view: type[PageEnvelopeView] = PageEnvelopeLeaf
envelope_transferable: type[Transferable] = PageEnvelopeLeaf

nothing_rows: type[MHARows] = NoOpLeaf
nothing_size: type[SizeReporting] = NoOpLeaf

eight_bit_rows: type[MHARows] = MXFP8Leaf
eight_bit_blocks: type[BlockScaled] = MXFP8Leaf
eight_bit_write: type[ScaledWrite] = MXFP8Leaf
four_bit_rows: type[MHARows] = FP4Leaf
four_bit_blocks: type[BlockScaled] = FP4Leaf
four_bit_override: type[LayerOverrideWrite] = FP4Leaf
four_bit_workspace: type[FP4Workspace] = NVFP4Leaf
four_bit_movable: type[Movable] = NVFP4Leaf
four_bit_latent: type[LatentRows] = MLAFP4Leaf
four_bit_latent_host_copyable: type[HostCopyable] = MLAFP4Leaf

pooled_leaf: type[KVLeaf] = CompressedDSALeaf
pooled_tails: type[KPoolTail] = CompressedDSALeaf
pooled_rows: type[IndexerCapable] = CompressedDSALeaf
pooled_host_copyable: type[HostCopyable] = CompressedDSALeaf

sparse_leaf: type[KVLeaf] = SparseIndexLeaf
sparse_rows: type[SparseIndexed] = SparseIndexLeaf
sparse_scales: type[ScaledWrite] = SparseIndexLeaf
sparse_state: type[StateTransferable] = SparseIndexLeaf
sparse_movable: type[Movable] = SparseIndexLeaf
sparse_host_copyable: type[HostCopyable] = SparseIndexLeaf

key_only: type[KeyOnly] = KeyOnlyLeaf
key_only_movable: type[Movable] = KeyOnlyLeaf

acme_leaf: type[KVLeaf] = AcmePool
acme_rows: type[MHARows] = AcmePool
acme_movable: type[Movable] = AcmePool
acme_transferable: type[Transferable] = AcmePool
acme_layer_ids: type[LayerIdReporting] = AcmePool
acme_host_copyable: type[HostCopyable] = AcmePool
