"""sglang's own pools seen through the contract: what they are, by class, and what only they can."""

from .capabilities import (
    AuxiliaryStates,
    CompressedExports,
    HostPools,
    PhysicalReservations,
    SharedHostArena,
    StateCosts,
)
from .declares import declares, traits_of
from .see import Seen, adopt_pools, see

__all__ = [
    "AuxiliaryStates",
    "CompressedExports",
    "HostPools",
    "PhysicalReservations",
    "Seen",
    "SharedHostArena",
    "StateCosts",
    "adopt_pools",
    "declares",
    "see",
    "traits_of",
]
