"""What Acme runs in its own CI."""

from __future__ import annotations

from typing import Any, ClassVar

import acme_kv

from kvproto.conformance.suite import PoolConformance


class TestAcme(PoolConformance):
    claims = ("KVPool", "KVLeaf", "Transferable")
    cannot: ClassVar = {"HostCopyable": "requests are recomputed after a retraction"}

    def make_pool(self, request: Any) -> Any:
        return acme_kv.build(request)
