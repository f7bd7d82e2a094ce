"""`HostMirrorable`, for leaves whose rows are buffers by layer."""

from __future__ import annotations

from abc import abstractmethod

from .device_pool_info import DevicePoolInfo, HostPoolDecl, MHABufferInfo, MLABufferInfo
from .stage_leaf import StageLeaf

__all__ = ["HostDescribed"]


class HostDescribed(StageLeaf):
    """A host tier of it is sized by `size`: its buffers are its own, and all of a token's."""

    # Whoever lays one allocation over several pools assigns them.
    host_capacity_tokens: int | None = None
    host_capacity_bytes: int | None = None

    @abstractmethod
    def _buffer_info(self) -> MHABufferInfo | MLABufferInfo:
        """The rows' buffers."""

    def get_device_pool_infos(self) -> tuple[DevicePoolInfo, ...]:
        """The rows of all layers, one description."""
        return (
            DevicePoolInfo(
                pool_name="kv",
                indices_from_pool="kv",
                layer_ids=self._layers.ids,
                buffer_info=self._buffer_info(),
            ),
        )

    def host_pool_decls(self) -> tuple[HostPoolDecl, ...]:
        """One host pool, of the rows."""
        return (HostPoolDecl(pool_name="kv", device_pool=self),)
