"""Our composites and the protocols they are for, whatever leaves they are given."""

from __future__ import annotations

from kvproto.protocols import (
    Composite,
    HybridComposite,
    KVPool,
    Resumable,
    SizeReporting,
    StatePool,
    StateTransferable,
    SWAComposite,
)
from kvproto.reference.hybrid import HybridLinearPool
from kvproto.reference.state import RecurrentStatePool
from kvproto.reference.swa import SWAPool

swa_pool: type[KVPool] = SWAPool
swa_composite: type[SWAComposite] = SWAPool
swa_parts: type[Composite] = SWAPool

hybrid_pool: type[KVPool] = HybridLinearPool
hybrid_composite: type[HybridComposite] = HybridLinearPool
hybrid_parts: type[Composite] = HybridLinearPool
hybrid_state: type[StateTransferable] = HybridLinearPool

state_pool: type[StatePool] = RecurrentStatePool
state_resumable: type[Resumable] = RecurrentStatePool
state_size: type[SizeReporting] = RecurrentStatePool
