"""The doors of a pool: write rows by location, read whole layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor, device, dtype

    from .layer import AttentionLayer, LayerTransferCounter, WriteLocation

__all__ = ["KVLeaf", "KVPool"]


@runtime_checkable
class KVPool(Capability, Protocol):
    """Can attention write tokens into the pool and read a layer of it, by global layer id?

    Leaves and composites alike. A location (`loc`) is a token slot: location `l` is token
    `l % page_size` of page `l // page_size`. Slot 0 is reserved: padded rows aim at it, every
    writer drops them, and it stays zero for the life of the pool. The rest of page 0 is storage
    that allocators never hand out and that writers need not guard. Layer ids are the model's
    own (global); a pool serves the ids it owns and raises for every other. Callers read data
    members and never assign them.
    """

    @property
    def size(self) -> int:
        """Usable token slots, in whole pages; locations run to `size + page_size`."""
        ...

    @property
    def page_size(self) -> int:
        """Token slots per page, at least 1."""
        ...

    @property
    def dtype(self) -> dtype:
        """What a stored element means, for example `torch.float8_e4m3fn`."""
        ...

    @property
    def device(self) -> device | str:
        """Where the buffers are: a `torch.device` or its name, which may lack the index.

        Whoever compares devices takes that of a buffer.
        """
        ...

    @property
    def start_layer(self) -> int:
        """The first global layer id of this pipeline stage, of a composite's parts together."""
        ...

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """All key rows of a layer, in the pool's layout.

        In NHD that is `[size + page_size, heads, head_dim]`.
        An alias of the storage in `dtype`, unless the traits declare another `read_door`.

        :raises ValueError: for a global layer id the pool does not own; never another layer.
        """
        ...

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """All value rows of a layer: `[..., v_head_dim]`.

        On latent pools the first `kv_lora_rank` elements of each key row, as stored: of packed
        rows those are quantized elements without their scales. Where the parts of a row lie in
        planes of their own (`latent_split` and `latent_split_nz` of `PoolTraits.layout`) the key
        buffer has the latent parts and this one the rope parts.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """The key and the value buffer of a layer.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
    ) -> None:
        """Store one row of keys and values per location, for the layer `layer.layer_id`.

        `loc_info` is the location tensor itself, or an object that carries it as `.loc` beside
        those of other spaces: backends pass either, and a pool whose layer lives in another
        space (a window layer of a composite) takes that space's from the object. The tensor is
        `[n]`, int32 or int64, strided or not. `cache_k` is `[n, heads, head_dim]` and
        `cache_v` `[n, heads, v_head_dim]`, of any float dtype and strides; they are not modified.
        On pools of latent rows `cache_k` is the whole row, `[n, 1, kv_lora_rank +
        qk_rope_head_dim]`, and `cache_v` is not looked at and may be None.
        Rows aimed at location 0 or below are dropped, duplicates and NaN among them included;
        of other duplicates one row wins whole. `n == 0` is legal. An fp8 pool saturates and
        keeps NaN. Fixed-shape and without a host sync on a device.

        :raises ValueError: for a layer the pool does not own, or rows of another width.
        :raises IndexError: on CPU, for a location past the last row; nothing is written.
        """
        ...

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """From now on, wait for a layer's load to finish before a read door hands it out."""
        ...


@runtime_checkable
class KVLeaf(KVPool, Protocol):
    """Does the pool itself own the rows of a contiguous range of layers?

    A leaf owns tensors; a composite routes to leaves and has no storage type of its own. Some
    composites in use assign these members all the same: `Composite` and `PoolTraits.kind` tell.
    """

    @property
    def store_dtype(self) -> dtype:
        """The element type of the storage; `torch.uint8` for fp8, and byte sizes follow it."""
        ...

    @property
    def layer_num(self) -> int:
        """Layers owned; 0 is legal and exports nothing."""
        ...

    @property
    def end_layer(self) -> int:
        """One past the last global layer id: `end_layer - start_layer == layer_num`."""
        ...
