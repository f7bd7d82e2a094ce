"""What a pool needs of the objects its callers pass in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AttentionLayer", "LayerTransferCounter", "WriteLocation"]


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
        """Return when layer `threshold` of the stage (`layer_id - start_layer`) is loaded."""
        ...


@runtime_checkable
class WriteLocation(Capability, Protocol):
    """Does the object carry a batch's write locations, one tensor per location space?

    Made once per batch by the attention backend, so that one `set_kv_buffer` call serves
    leaves and composites. Padded rows hold 0 in every space.
    """

    @property
    def loc(self) -> Tensor:
        """`[n]`, int32 or int64: locations in the space of the pool that is called."""
        ...

    @property
    def swa_loc(self) -> Tensor | None:
        """`[n]`: the same tokens in the window space; None where no window pool is involved."""
        ...

    @property
    def full_loc(self) -> Tensor | None:
        """`[n]`: the same tokens in the full leaf's space; None means `loc`."""
        ...

    @property
    def physical(self) -> bool:
        """True when the locations are physical slots; pools with virtual ids refuse others."""
        ...
