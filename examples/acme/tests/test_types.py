"""A line each: mypy and pyright say here what a class lacks, before anything runs.

At run time the same question is answered by members and signatures.
"""

from __future__ import annotations

from acme_kv.heads import AcmeHeads
from acme_kv.indexed import AcmeIndexed
from acme_kv.latents import AcmeLatents
from acme_kv.pages import AcmePages
from acme_kv.platform import AcmePlatform

from kvproto.protocols import (
    DeclaresRegions,
    HostCopyable,
    IndexerCapable,
    KVLeaf,
    LatentRows,
    MHARows,
    Movable,
    PagedAllocator,
    Platform,
    StateTransferable,
    Transferable,
)

heads_leaf: type[KVLeaf] = AcmeHeads
heads_rows: type[MHARows] = AcmeHeads
heads_regions: type[DeclaresRegions] = AcmeHeads
heads_transfer: type[Transferable] = AcmeHeads
heads_movable: type[Movable] = AcmeHeads
heads_host_copies: type[HostCopyable] = AcmeHeads

latents_leaf: type[KVLeaf] = AcmeLatents
latents_rows: type[LatentRows] = AcmeLatents

indexed_keys: type[IndexerCapable] = AcmeIndexed
indexed_state: type[StateTransferable] = AcmeIndexed

pages: type[PagedAllocator] = AcmePages
platform: type[Platform] = AcmePlatform


def test_they_share_no_base_class_with_kvproto() -> None:
    for cls in (AcmeHeads, AcmeIndexed, AcmePages, AcmePlatform):
        assert all(base.__module__.startswith("acme_kv") for base in cls.__mro__[:-1])
