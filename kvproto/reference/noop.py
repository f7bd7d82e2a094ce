"""No rows: for models that only prefill, whose attention uses the rows at hand."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES
from kvproto.protocols import BufferRegion, PoolTraits, QuantScheme

from .elements import FP8_VARIANT_OF, check_element, check_geometry
from .layers import OwnedLayers

__all__ = ["NoOpLeaf"]


class NoOpLeaf:
    """A leaf that keeps nothing, and says so: it cannot be written, moved, copied or exported.

    `size` counts the tokens a scheduler may admit. The read doors give one page of zeros,
    `[page_size, head_num, head_dim | v_head_dim]`, the same one for every layer: a backend may
    shape it by pages before it finds that there is nothing to read. It is all that is allocated,
    however large the pool. Keywords are those of `MHALeaf`; a memory saver has nothing to save.

    :raises ValueError: for impossible geometry.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    head_num: int
    head_dim: int
    v_head_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    pool_traits: PoolTraits
    kv_cache_layout = "nhd"
    mem_usage = 0.0
    # What would need stored rows is declared as not supported: whoever needs it is told when it
    # is bound, and no row is lost in silence.
    set_kv_buffer: None = None
    set_k_buffer: None = None
    move_kv_cache: None = None
    get_cpu_copy: None = None
    load_cpu_copy: None = None
    get_contiguous_buf_infos: None = None

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        v_head_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        enable_alt_stream: bool = True,
        enable_kv_cache_copy: bool = False,
    ) -> None:
        widths = head_dim, head_dim if v_head_dim is None else v_head_dim
        check_geometry(
            size=size,
            page_size=page_size,
            head_num=head_num,
            head_dim=widths[0],
            v_head_dim=widths[1],
        )
        check_element(dtype)
        variant = FP8_VARIANT_OF.get(dtype, "none")
        scheme: QuantScheme = "none" if variant == "none" else "fp8_scaled"
        self.pool_traits = PoolTraits(
            kind="noop", layout="nhd", quant_scheme=scheme, fp8_variant=variant
        )
        self._layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        self.size, self.page_size, self.dtype = size, page_size, dtype
        self.device = torch.device(device)
        self.store_dtype = torch.uint8 if dtype in FP8_DTYPES else dtype
        self.head_num, (self.head_dim, self.v_head_dim) = head_num, widths
        self.k_buffer = [self._page(widths[0])] * layer_num
        self.v_buffer = (
            self.k_buffer if widths[0] == widths[1] else [self._page(widths[1])] * layer_num
        )

    def _page(self, width: int) -> Tensor:
        shape = (self.page_size, self.head_num, width)
        return torch.zeros(shape, dtype=self.store_dtype, device=self.device)

    @property
    def start_layer(self) -> int:
        """The first global layer id."""
        return self._layers.start

    @property
    def end_layer(self) -> int:
        """One past the last global layer id."""
        return self._layers.end

    @property
    def layer_num(self) -> int:
        """Layers of the stage."""
        return self._layers.count

    def get_v_head_dim(self) -> int:
        """The width of a value head, without naming a layer."""
        return self.v_head_dim

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """One page of zeros, `[page_size, head_num, head_dim]` in `dtype`.

        :raises ValueError: for a global layer id the stage does not have.
        """
        return self.k_buffer[self._layers.local(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """One page of zeros, `[page_size, head_num, v_head_dim]` in `dtype`.

        :raises ValueError: for a global layer id the stage does not have.
        """
        return self.v_buffer[self._layers.local(layer_id)].view(self.dtype)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both of them."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Nothing for keys and nothing for values: the page of zeros is no token's."""
        return 0, 0

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """None."""
        return ()
