"""Reference leaves behind the constructors of sglang's pools: what its configurator calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.debug import maybe_validate
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, WriteLocation
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf, dsa_leaf
from kvproto.reference.row_layouts import RowLayoutName
from kvproto.reference.row_leaf import locations_of

__all__ = ["SGLangDSALeaf", "SGLangMHALeaf", "SGLangMLALeaf"]


class SGLangMHALeaf(MHALeaf):
    """`MHALeaf` with the keywords of sglang's MHA pools, full and windowed.

    `swa_head_num`, `swa_head_dim` and `swa_v_head_dim` go before the plain ones: sglang gives them
    to the window leaf of a pair. `allocation_label` is for sglang's log. `size` may end inside a
    page, whose rest is never lent. With `KVPROTO_DEBUG=1` calls are validated.

    :raises ValueError: as `MHALeaf`, for a `quant_method`, and with `post_capture_active`: rows are
        allocated here and now, as they are.
    """

    # Not supported: sglang makes host pools of its own types of description alone.
    get_device_pool_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    host_pool_decls = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

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
        swa_head_num: int | None = None,
        swa_head_dim: int | None = None,
        swa_v_head_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        enable_alt_stream: bool = True,
        enable_kv_cache_copy: bool = False,
        kv_cache_layout: RowLayoutName | None = None,
        quant_method: object | None = None,
        post_capture_active: bool = False,
        allocation_label: str | None = None,
    ) -> None:
        if quant_method is not None:
            raise ValueError(f"quant_method={quant_method!r}: rows are stored in dtype={dtype}")
        if post_capture_active:
            raise ValueError("post_capture_active: rows have memory from the start")
        super().__init__(
            _whole_pages(size, page_size),
            page_size,
            dtype,
            head_num if swa_head_num is None else swa_head_num,
            head_dim if swa_head_dim is None else swa_head_dim,
            layer_num,
            device,
            enable_memory_saver,
            _first(swa_v_head_dim, v_head_dim, head_dim),
            start_layer,
            end_layer,
            enable_alt_stream,
            enable_kv_cache_copy,
            kv_cache_layout,
        )
        maybe_validate(self)

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
        layer_id_override: int | None = None,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        """As `MHALeaf.set_kv_buffer`, without the rows whose mask is False, as `DCPMaskedWrite`.

        sglang's hybrid pool names the mask on every write.
        """
        loc = locations_of(loc_info)
        kept = loc if dcp_kv_mask is None else torch.where(dcp_kv_mask, loc, 0)
        super().set_kv_buffer(layer, kept, cache_k, cache_v, k_scale, v_scale, layer_id_override)


class SGLangMLALeaf(MLALeaf):
    """`MLALeaf` with the keywords of sglang's MLA pool; as `SGLangMHALeaf`.

    :raises ValueError: as `MLALeaf`, and with `dcp_replicated`: a page holds one rank's tokens.
    """

    # Not supported: sglang makes host pools of its own types of description alone.
    get_device_pool_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    host_pool_decls = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        start_layer: int | None = None,
        end_layer: int | None = None,
        use_dsa: bool = False,
        override_kv_cache_dim: int | None = None,
        dcp_replicated: bool = False,
    ) -> None:
        if dcp_replicated:
            raise ValueError("dcp_replicated: a page of this leaf holds one rank's tokens")
        super().__init__(
            _whole_pages(size, page_size),
            page_size,
            dtype,
            kv_lora_rank,
            qk_rope_head_dim,
            layer_num,
            device,
            enable_memory_saver,
            start_layer,
            end_layer,
            use_dsa,
            override_kv_cache_dim,
        )
        maybe_validate(self)


class SGLangDSALeaf(DSALeaf):
    """`dsa_leaf` with the keywords of sglang's DSA pool: it makes the leaf that these ask for.

    What it makes is a leaf of `kvproto.reference`, by the class that fits, and none of this class.

    :raises ValueError: as `dsa_leaf`.
    """

    # Not supported: sglang makes host pools of its own types of description alone.
    get_device_pool_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    host_pool_decls = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    # No object of this class is made, so that its `__init__` is never called.
    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls, size: int, page_size: int, **keywords: Any
    ) -> Any:
        """The leaf; as `SGLangMHALeaf`."""
        return maybe_validate(
            dsa_leaf(size=_whole_pages(size, page_size), page_size=page_size, **keywords)
        )


def _whole_pages(size: int, page_size: int) -> int:
    return size // page_size * page_size


def _first(*given: int | None) -> int | None:
    return next((each for each in given if each is not None), None)
