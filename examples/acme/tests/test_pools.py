"""Every law about leaves and allocators, one test each, on what Acme builds."""

from __future__ import annotations

from typing import Any, ClassVar

from acme_kv.platform import build

from kvproto.conformance.suite import PoolConformance


class TestAcme(PoolConformance):
    """What is claimed has to be found, and what is found has to be claimed."""

    claims = (
        "KVPool",
        "KVLeaf",
        "MHARows",
        "MLALatent",
        "LatentRows",
        "IndexerCapable",
        "Movable",
        "Transferable",
        "StateTransferable",
        "HostCopyable",
        "SizeReporting",
        "DeclaresTraits",
        "DeclaresRegions",
        "SlotAllocator",
        "PagedAllocator",
    )
    cannot: ClassVar = {
        "ScaledWrite": "rows are never quantised, so that there is no scale to divide by",
        "LayerIdReporting": "a region is of all layers",
        "PrefixValidCommit": "accepted drafts are stored by a second write",
        "HostMirrorable": "no host tier of Acme's own; the regions are enough for kvproto's",
        "Resumable": "nothing pauses Acme's memory",
        "SparseIndexed": "no kernels for index rows by head",
    }

    def make_pool(self, request: Any) -> Any:
        return build(request)
