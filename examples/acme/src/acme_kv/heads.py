"""Multi-head attention: a key row and a value row a token, by head."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import AttentionLayer, MHALeafRequest, PoolTraits, WriteLocation

from .leaf import AcmeLeaf, locations
from .records import Row
from .rows import store_rows

__all__ = ["AcmeHeads"]


class AcmeHeads(AcmeLeaf):
    """Read doors show `[slots, heads, width]`, which is what `layout="nhd"` promises."""

    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    head_num: int
    head_dim: int
    v_head_dim: int
    pool_traits = PoolTraits(kind="mha", layout="nhd", transfer_layout="page_envelope")

    def __init__(self, request: MHALeafRequest) -> None:
        self.head_num, self.head_dim = request.head_num, request.head_dim
        self.v_head_dim = request.value_head_dim
        keys = Row({"key": self.head_dim}, self.head_num)
        values = Row({"value": self.v_head_dim}, self.head_num)
        super().__init__(request, (keys, values))
        self.k_buffer, self.v_buffer = self._records.views(0), self._records.views(1)

    def get_v_head_dim(self) -> int:
        """The width of a value head."""
        return self.v_head_dim

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The keys of a layer."""
        return self.k_buffer[self._loaded(layer_id)]

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The values of a layer."""
        return self.v_buffer[self._loaded(layer_id)]

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both."""
        local = self._loaded(layer_id)
        return self.k_buffer[local], self.v_buffer[local]

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
    ) -> None:
        """Rows to slots; those for slot 0 and below are dropped."""
        local = self._local(layer.layer_id)
        targets = self.k_buffer[local], self.v_buffer[local]
        store_rows(targets, locations(loc_info), (cache_k, cache_v))

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of keys and of values."""
        keys = sum(view.numel() for view in self.k_buffer) * self.dtype.itemsize
        return keys, self._nbytes - keys
