"""What a pool needs of the objects its callers pass in."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["AttentionLayer", "LayerTransferCounter"]


@runtime_checkable
class AttentionLayer(Capability, Protocol):
    """Does the object say which layer it is?"""

    @property
    def layer_id(self) -> int:
        """The global id of the layer in the model."""
        ...


@runtime_checkable
class LayerTransferCounter(Capability, Protocol):
    """Can a reader wait until a layer has arrived from the host tier?"""

    def wait_until(self, threshold: int, /) -> None:
        """Return when layer `threshold` of the stage (local: `layer_id - start_layer`) is loaded."""
        ...
