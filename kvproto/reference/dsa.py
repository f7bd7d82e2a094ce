"""Sparse latent attention: latent rows, and index keys that choose among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import check_locations, prepare_index_moves
from kvproto.kernels.index_page import SCALE_BYTES
from kvproto.protocols import BufferRegion, IndexLayout

from .device_pool_info import HostPoolDecl, HostPoolStorageInfo
from .elements import check_geometry
from .host_rows import HostRows, check_copied
from .index_pages import IndexPages
from .memory_saver import kv_cache_region
from .mla import MLALeaf
from .mla_layout import dsa_traits

__all__ = ["DSALeaf"]


class DSALeaf(MLALeaf):
    """Latent rows and, per token, a fp8 index key with its float32 scale.

    The constructor takes the keywords in use today. `kv_cache_dim` says which rows: the sum of
    the parts, which None means, or the packed width (656 for 512 and 64, dtype e4m3fn). Index
    pages have the pool's page size and the reserved page, all keys first, then all scales: 8448
    bytes for 64 keys of 128. Keys are of `index_dtype`, e4m3fn (which None means) or e4m3fnuz, and
    lie in a page as `index_layout` says. A layer flagged in `skip_topk_layers` reuses the choice of
    an earlier one and owns no index pages: its buffer is `[0, ...]`, and its keys cannot be set or
    gathered.
    `index_kpool` is 1 here, and `index_kpool_compress`, `tail_extra_slots` and
    `max_running_requests`, which only pooled keys need, change nothing: `dsa_leaf` takes the same
    keywords and picks the class. With `dcp_replicated` a page holds the tokens of `dcp_size` ranks,
    and has an index page for each of them; a leaf of one rank's rows is a `SplitDSALeaf`.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    index_head_dim: int
    index_page_size: int
    index_kpool: int
    index_k_with_scale_buffer: list[Tensor]
    skip_topk_layers: tuple[bool, ...]

    def __init__(
        self,
        size: int,
        page_size: int,
        kv_lora_rank: int,
        dtype: torch.dtype,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        index_head_dim: int,
        enable_memory_saver: bool = False,
        kv_cache_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        index_kpool: int = 1,
        index_kpool_compress: bool = False,
        tail_extra_slots: int = 0,
        max_running_requests: int | None = None,
        skip_topk_layers: Sequence[bool] | None = None,
        dcp_size: int = 1,
        dcp_replicated: bool = False,
        index_dtype: torch.dtype | None = None,
        index_layout: IndexLayout = "token_rows",
    ) -> None:
        check_geometry(size=size, page_size=page_size, index_head_dim=index_head_dim)
        skipped = _skipped(skip_topk_layers, layer_num)
        self._check_pooling(index_kpool, page_size, index_kpool_compress)
        self._check_ranks(page_size, dcp_size, dcp_replicated)
        if dcp_size > 1 and index_kpool > 1:
            raise ValueError(
                f"dcp_size={dcp_size}: the {index_kpool} tokens of an index key are several ranks'"
            )
        self.index_page_size = page_size // index_kpool // (dcp_size if dcp_replicated else 1)
        element = torch.float8_e4m3fn if index_dtype is None else index_dtype
        self._index = IndexPages(self.index_page_size, index_head_dim, element, index_layout)
        super().__init__(
            size,
            page_size,
            dtype,
            kv_lora_rank,
            qk_rope_head_dim,
            layer_num,
            device,
            enable_memory_saver,
            start_layer,
            end_layer,
            use_dsa=True,
            override_kv_cache_dim=kv_cache_dim,
        )
        self.pool_traits = dsa_traits(self._row, index_layout)
        self.index_head_dim, self._ranks = index_head_dim, dcp_size
        self.index_kpool, self.skip_topk_layers = index_kpool, skipped
        with kv_cache_region(enable_memory_saver):
            self.index_k_with_scale_buffer = [self._index_pages(skip) for skip in skipped]
        prepare_index_moves(self._indexed(), index_head_dim)

    @classmethod
    def _check_pooling(cls, index_kpool: int, page_size: int, index_kpool_compress: bool) -> None:
        if index_kpool != 1:
            raise ValueError(
                f"index_kpool={index_kpool}: a DSALeaf has an index key per token, pooled keys are "
                "a PooledDSALeaf's; dsa_leaf takes the same keywords and picks the class"
            )

    @classmethod
    def _check_ranks(cls, page_size: int, dcp_size: int, dcp_replicated: bool) -> None:
        if dcp_size > 1 and not dcp_replicated:
            raise ValueError(
                f"dcp_size={dcp_size}: a DSALeaf has the rows of every token, those of one rank's "
                "are a SplitDSALeaf's; dsa_leaf takes the same keywords and picks the class"
            )
        if page_size % dcp_size:
            raise ValueError(f"page_size={page_size}: must be a multiple of dcp_size={dcp_size}")

    def _index_slots(self, indices: Tensor) -> Tensor:
        """The index slots that travel with the tokens at these locations; 0 for none."""
        return indices

    @property
    def _id_slots(self) -> int:
        """Tokens that there is room for index keys of, the reserved page's among them."""
        return self.size + self.page_size

    def _index_pages(self, skip: bool) -> Tensor:
        pages = 0 if skip else self._id_slots // self.index_kpool // self.index_page_size
        shape = pages, self._index.page_bytes
        return torch.zeros(shape, dtype=torch.uint8, device=self.device)

    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        """`[pages, bytes of a page]` as stored, an alias; `[0, ...]` for a layer without keys."""
        return self.index_k_with_scale_buffer[self._fenced(layer_id)]

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        """Store keys of `index_dtype`, `[n, index_head_dim]`, and float32 scales `[n]` or `[n, 1]`.

        Keys may come as uint8, their bytes. Slot 0 and below are dropped.

        :raises ValueError: for a layer the pool does not own or that has no index keys, and for
            keys or scales of another shape or dtype; nothing is written.
        :raises IndexError: on CPU, for a slot past the last; nothing is written.
        """
        pages = self._pages_with_keys(self._layers.local(layer_id), layer_id)
        check_locations(loc, self._id_slots // self.index_kpool)
        n, fp8 = loc.shape[0], self._index.dtype
        given = index_k.view(fp8) if index_k.dtype == torch.uint8 else index_k
        keys = _bytes_of(given, fp8, (n, self.index_head_dim), "index_k")
        column = index_k_scale.unsqueeze(1) if index_k_scale.dim() == 1 else index_k_scale
        scales = _bytes_of(column, torch.float32, (n, 1), "index_k_scale")
        self._index.store(pages, loc, keys, scales)

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        """Keys and scales of a batch, as `IndexerCapable` says; `max_seq_len` is not needed here.

        :raises ValueError: for a layer the pool does not own or that has no index keys.
        """
        pages = self._pages_with_keys(self._fenced(layer_id), layer_id)
        return self._index.gather(pages, seq_len_tensor, page_indices, seq_len_sum)

    def _pages_with_keys(self, local: int, layer_id: int) -> Tensor:
        if self.skip_topk_layers[local]:
            raise ValueError(
                f"layer_id={layer_id} has no index keys, it reuses the choice of an earlier layer"
            )
        return self.index_k_with_scale_buffer[local]

    def _indexed(self) -> list[Tensor]:
        return [pages for pages in self.index_k_with_scale_buffer if pages.shape[0]]

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens from slot to slot in every layer, index keys too; sources are read first."""
        super().move_kv_cache(tgt_loc, src_loc)
        self._index.move(self._indexed(), tgt_loc, src_loc)

    def restore_reserved(self) -> None:
        """Zero slot 0 of every row buffer, and the reserved page of index keys."""
        super().restore_reserved()
        for pages in self._indexed():
            pages[: self._ranks].zero_()

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> HostRows:
        """The rows and index keys of the given locations on the host; bit-exact."""
        rows = super().get_cpu_copy(indices)
        slots = self._index_slots(indices)
        loaded = [self._index.load(pages, slots) for pages in self._indexed()]
        index_keys = tuple((keys.to("cpu"), scales.to("cpu")) for keys, scales in loaded)
        return replace(rows, index_keys=index_keys)

    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from."""
        super().load_cpu_copy(kv_cache_cpu, indices, req_pool_index=req_pool_index)
        for pages, parts in zip(self._indexed(), kv_cache_cpu.index_keys, strict=True):
            keys, scales = (part.to(self.device) for part in parts)
            self._index.store(pages, self._index_slots(indices), keys, scales)

    def check_cpu_copy(
        self, kv_cache_cpu: HostRows, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises."""
        indexed = self._indexed()
        if len(kv_cache_cpu.index_keys) != len(indexed):
            raise ValueError(
                f"the copy holds index keys of {len(kv_cache_cpu.index_keys)} layers, "
                f"{len(indexed)} layers here have some"
            )
        for keys, scales in kv_cache_cpu.index_keys:
            for part, width in ((keys, self.index_head_dim), (scales, SCALE_BYTES)):
                check_copied(part, (indices.shape[0], width), torch.uint8)
        super().check_cpu_copy(kv_cache_cpu, indices)

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The index pages of every layer, by KV page, of which each rank's has one; in bytes.

        A layer without index keys keeps its place, with a length and an item length of 0.
        """
        buffers = self.index_k_with_scale_buffer
        items = [b.shape[1] * self._ranks if b.shape[0] else 0 for b in buffers]
        return [b.data_ptr() for b in buffers], [b.nbytes for b in buffers], items

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The rows of all layers, then the index pages of the layers that own some."""
        layer_ids = self._keyed_layer_ids
        if not layer_ids:
            return self._row_regions()
        return (*self._row_regions(), self._index.region(self._indexed(), layer_ids))

    def host_pool_decls(self) -> tuple[HostPoolDecl, ...]:
        """A host pool of the rows, and one of the index keys, where a layer has some.

        :raises ValueError: for index pages whose bytes are not whole ones for each token.
        """
        owned = tuple(i for i, skip in enumerate(self.skip_topk_layers) if not skip)
        if not owned:
            return super().host_pool_decls()
        each, rest = divmod(self._index.page_bytes * self._ranks, self.page_size)
        if rest:
            raise ValueError(
                f"index pages of {self._index.page_bytes} bytes do not split over "
                f"{self.page_size} tokens; a HostTier keeps them whole"
            )
        keys = HostPoolDecl(
            pool_name="indexer",
            device_pool=self,
            indices_from_pool="kv",
            layout_source="kv",
            storage_info=HostPoolStorageInfo(bytes_per_token_per_layer=each, dtype=torch.uint8),
            owned_device_layers=owned,
        )
        return (*super().host_pool_decls(), keys)

    @property
    def _keyed_layer_ids(self) -> tuple[int, ...]:
        owners = zip(self._layers.ids, self.skip_topk_layers, strict=True)
        return tuple(layer_id for layer_id, skip in owners if not skip)

    def get_kv_size_bytes(self) -> int:
        """Bytes of all rows and index pages, the reserved page included."""
        return super().get_kv_size_bytes() + sum(b.nbytes for b in self.index_k_with_scale_buffer)


def _skipped(flags: Sequence[bool] | None, layer_num: int) -> tuple[bool, ...]:
    skipped = (False,) * layer_num if flags is None else tuple(flags)
    if len(skipped) != layer_num:
        raise ValueError(
            f"skip_topk_layers has {len(skipped)} flags, must be one for each of {layer_num} layers"
        )
    return skipped


def _bytes_of(given: Tensor, dtype: torch.dtype, shape: tuple[int, int], name: str) -> Tensor:
    if given.shape != shape or given.dtype != dtype:
        raise ValueError(
            f"{name} is {given.dtype} {tuple(given.shape)}, must be {dtype} {shape}; "
            "nothing was written"
        )
    return given.contiguous().view(torch.uint8)
