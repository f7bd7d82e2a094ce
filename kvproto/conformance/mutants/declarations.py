"""Pools that say or offer what is not so."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from kvproto.protocols import MHALeafRequest
from kvproto.reference import MHALeaf

from .registry import mutant


@mutant("declaration.raising-stub", source="sgl-project/sglang#33385", serves=MHALeafRequest)
class RaisesInStub(MHALeaf):
    def get_cpu_copy(
        self, indices: Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        raise NotImplementedError


@mutant("declaration.claims", serves=MHALeafRequest, claims=["KVPool", "SWACapable"])
class ClaimsTooMuch(MHALeaf):
    pass


@mutant("declaration.claims", serves=MHALeafRequest, cannot={"Movable": "no copy kernel"})
class CanWhatItSaysItCannot(MHALeaf):
    pass
