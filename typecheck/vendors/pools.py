"""Vendor pools and the protocols they are for: a line each, and the checkers do the rest."""

from __future__ import annotations

from kvproto.protocols import (
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
    SizeReporting,
    StateTransferable,
    Transferable,
)
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf
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

acme_leaf: type[KVLeaf] = AcmePool
acme_rows: type[MHARows] = AcmePool
acme_movable: type[Movable] = AcmePool
acme_transferable: type[Transferable] = AcmePool
acme_layer_ids: type[LayerIdReporting] = AcmePool
acme_host_copyable: type[HostCopyable] = AcmePool
