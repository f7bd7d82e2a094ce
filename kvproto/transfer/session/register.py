"""Memory of pools, known to an engine."""

from __future__ import annotations

from kvproto.protocols import registered_spans

from ..engines.engine import Registration, TransferEngine
from ..manifests.manifest import PoolManifest

__all__ = ["register_pools"]


def register_pools(engine: TransferEngine, manifest: PoolManifest) -> Registration:
    """Register every byte that may travel, aligned as the regions ask; before `open_link`.

    :raises EngineError: for memory that the engine cannot register.
    """
    regions = [each.region for part in manifest.pools for each in part.regions]
    return engine.register(registered_spans(regions))
