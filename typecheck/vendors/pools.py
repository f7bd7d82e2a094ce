"""Vendor pools and the protocols they are for: a line each, and the checkers do the rest."""

from __future__ import annotations

from kvproto.protocols import (
    HostCopyable,
    KVLeaf,
    LayerIdReporting,
    MHARows,
    Movable,
    Transferable,
)
from kvproto.reference import MHALeaf
from typecheck.vendors.acme import AcmePool

reference_leaf: type[KVLeaf] = MHALeaf
reference_rows: type[MHARows] = MHALeaf
reference_transferable: type[Transferable] = MHALeaf
reference_host_copyable: type[HostCopyable] = MHALeaf

acme_leaf: type[KVLeaf] = AcmePool
acme_rows: type[MHARows] = AcmePool
acme_movable: type[Movable] = AcmePool
acme_transferable: type[Transferable] = AcmePool
acme_layer_ids: type[LayerIdReporting] = AcmePool
acme_host_copyable: type[HostCopyable] = AcmePool
