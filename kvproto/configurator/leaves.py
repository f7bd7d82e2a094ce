"""The requests for a stage's leaves and state, sized for one page until tokens are counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    PlatformCapabilities,
    QuantScheme,
    SparseIndexLeafRequest,
    StatePoolRequest,
)

from .device_subset import ids_per_row
from .dsa_rows import fp8_rows
from .elements import planned_dtype, stored_as
from .geometry import AttentionGeometry, HeadGeometry, IndexGeometry, LatentGeometry, StateGeometry
from .index_keys import index_keys
from .latent_layout import latent_layout
from .options import ServingOptions
from .page_shards import page_shards
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape
from .stage import Stage

if TYPE_CHECKING:
    import torch

__all__ = ["LeafRequests", "leaf_requests"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequests:
    """What a stage needs built: a leaf for full layers, one for windowed, state for recurrent.

    None where the stage has no such layers. Their `size` is one page, or one slot: nothing is
    counted yet.
    """

    full: LeafRequest | None
    window: LeafRequest | None
    state: StatePoolRequest | None


def leaf_requests(
    shape: ModelShape,
    stage: Stage,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
) -> LeafRequests:
    """The requests of one stage.

    :raises PlanError: for an option that the model's rows cannot be stored with.
    """
    maker = _Maker(stage, options, parallel, platform)
    full = window = state = None
    if stage.full and shape.attention is not None:
        index = shape.index if shape.ids("indexed") else None
        full = maker.leaf(shape.attention, index, stage.full)
        shards = page_shards(shape, options, parallel)
        if shards is not None and isinstance(full, MLALeafRequest | DSALeafRequest):
            full = replace(full, page_shards=shards)
    if stage.window and shape.window_attention is not None:
        window = maker.leaf(shape.window_attention, None, stage.window)
    if stage.state and shape.state is not None:
        state = maker.state(shape.state)
    return LeafRequests(full=full, window=window, state=state)


@dataclass(frozen=True, slots=True)
class _Maker:
    stage: Stage
    options: ServingOptions
    parallel: ParallelLayout
    platform: PlatformCapabilities

    def leaf(
        self, geometry: AttentionGeometry, index: IndexGeometry | None, layer_ids: tuple[int, ...]
    ) -> LeafRequest:
        match geometry:
            case HeadGeometry():
                if index is None or index.scheme == "pooled_rows":
                    return self._heads(geometry, layer_ids)
                return self._sparse(geometry, index, layer_ids)
            case LatentGeometry():
                if index is None:
                    return self._latent(geometry, layer_ids)
                return self._indexed(geometry, index, layer_ids)
            case _:
                assert_never(geometry)

    def _heads(self, geometry: HeadGeometry, layer_ids: tuple[int, ...]) -> MHALeafRequest:
        return MHALeafRequest(
            **self._common(layer_ids),
            head_num=self._heads_of_rank(geometry),
            head_dim=geometry.head_dim,
            v_head_dim=None if geometry.v_head_dim == geometry.head_dim else geometry.v_head_dim,
            layout=self.options.rows_of_heads,
        )

    def _heads_of_rank(self, geometry: HeadGeometry) -> int:
        heads, ranks = geometry.head_num, self.parallel.head_ranks
        if heads % ranks and ranks % heads:
            raise PlanError(
                "tp_size",
                self.parallel.tp_size,
                f"{heads} KV heads can neither be split over {ranks} ranks nor repeated on them",
                "give a divisor or a multiple of the heads, or more attention groups",
            )
        return geometry.heads_of_rank(ranks)

    def _sparse(
        self, geometry: HeadGeometry, index: IndexGeometry, layer_ids: tuple[int, ...]
    ) -> SparseIndexLeafRequest | MHALeafRequest:
        keyed = self.stage.keyed
        if not keyed:
            return self._heads(geometry, layer_ids)
        return SparseIndexLeafRequest(
            **self._common(layer_ids),
            head_num=self._heads_of_rank(geometry),
            head_dim=geometry.head_dim,
            idx_head_dim=index.head_dim,
            host_to_device_ratio=ids_per_row(self.options),
            index_dtype=self._index_dtype(),
            dense_layer_ids=tuple(i for i in layer_ids if i not in keyed),
            sparse_layer_ids=keyed,
            disable_value_sparse_layer_ids=tuple(
                i for i in keyed if i not in index.value_layer_ids
            ),
        )

    def _index_dtype(self) -> torch.dtype | None:
        """None where index rows are of the rows' own type."""
        own = self.options.index_rows == "cache" or self._stored()[1] == "none"
        return None if own else planned_dtype(self.options.model_dtype)

    def _latent(self, geometry: LatentGeometry, layer_ids: tuple[int, ...]) -> MLALeafRequest:
        return MLALeafRequest(
            **self._common(layer_ids),
            kv_lora_rank=geometry.kv_lora_rank,
            qk_rope_head_dim=geometry.qk_rope_head_dim,
            layout=latent_layout(self.options, self.platform, indexed=False),
        )

    def _indexed(
        self, geometry: LatentGeometry, index: IndexGeometry, layer_ids: tuple[int, ...]
    ) -> DSALeafRequest:
        shared = tuple(i not in self.stage.keyed for i in layer_ids)
        common = self._common(layer_ids)
        if fp8_rows(geometry, self.options, self.platform) == "packed":
            common["quant_scheme"] = "dsa_fp8_packed"
        return DSALeafRequest(
            **common,
            kv_lora_rank=geometry.kv_lora_rank,
            qk_rope_head_dim=geometry.qk_rope_head_dim,
            index_head_dim=index.head_dim,
            layout=latent_layout(self.options, self.platform, indexed=True),
            skip_topk_layers=shared if any(shared) else (),
            host_to_device_ratio=ids_per_row(self.options),
            dcp_size=self.parallel.dcp_size,
            **self._pooling(index),
            **index_keys(index, common["dtype"], self.options.page, self.platform),
        )

    def _pooling(self, index: IndexGeometry) -> dict[str, Any]:
        """Tokens of an index key, and the rings of requests where keys are weighed."""
        page = self.options.page
        if page % index.kpool:
            raise PlanError(
                "page_size",
                page,
                f"{index.kpool} tokens share an index key, which must not cross a page",
                f"give a multiple of {index.kpool}",
            )
        if not index.weighed or index.kpool == 1:
            return {"index_kpool": index.kpool}
        running = self.parallel.requests_of_group(self.options.max_running_requests)
        if running is None:
            raise PlanError(
                "max_running_requests",
                None,
                "each request has a ring of raw index keys, whose bytes come before any token's",
                "state a number",
            )
        speculative = self.options.speculative
        return {
            "index_kpool": index.kpool,
            "index_kpool_compress": True,
            "tail_extra_slots": 0 if speculative is None else speculative.draft_tokens,
            "max_running_requests": running + self.options.rows_to_come,
        }

    def _common(self, layer_ids: tuple[int, ...]) -> dict[str, Any]:
        dtype, scheme = self._stored()
        return {
            "size": self.options.page,
            "page_size": self.options.page,
            "dtype": dtype,
            "quant_scheme": scheme,
            "layer_num": len(layer_ids),
            "start_layer": self._first_layer(),
            "device": self.options.device,
            "enable_memory_saver": self.options.enable_memory_saver,
        }

    def _first_layer(self) -> int:
        """The global id a leaf starts with; in a composite, which translates ids itself, 0."""
        stage, ids = self.stage, self.stage.full
        if stage.is_contiguous:
            return stage.layers.start
        if stage.window or stage.state:
            return 0
        if ids != tuple(range(ids[0], ids[-1] + 1)):
            raise PlanError(
                "pp_size",
                self.parallel.pp_size,
                f"of a stage's layers {list(ids)} keep rows and those between keep nothing, which "
                "is no leaf and no composite",
                "give pp_layers that leave a recurrent layer to each stage",
            )
        return ids[0]

    def _stored(self) -> tuple[torch.dtype, QuantScheme]:
        options, fp8 = self.options, self.platform.fp8_variant
        if options.kv_cache_dtype in ("fp8_e4m3", "fp8_e5m2", "mxfp8") and fp8 == "none":
            raise PlanError(
                "kv_cache_dtype",
                options.kv_cache_dtype,
                f"devices of type '{self.platform.device_type}' have no fp8",
                "give 'auto' or a 16-bit type",
            )
        name, scheme = stored_as(options.kv_cache_dtype, options.model_dtype, fp8)
        return planned_dtype(name), scheme

    def state(self, geometry: StateGeometry) -> StatePoolRequest:
        ranks = self.parallel.attention_ranks
        if geometry.heads % ranks:
            raise PlanError(
                "tp_size",
                self.parallel.tp_size,
                f"{geometry.heads} heads of recurrent state cannot be split over {ranks} ranks",
                "give a divisor of the heads, or more attention groups",
            )
        conv = geometry.conv_shape(ranks)
        speculative = self.options.speculative
        scratch = speculative is not None and self.options.role != "prefill"
        return StatePoolRequest(
            size=1,
            mamba_layer_ids=self.stage.state,
            conv_state_shape=() if conv is None else (conv,),
            temporal_state_shape=geometry.temporal_shape(ranks),
            conv_dtype=planned_dtype(self.options.state.conv_dtype),
            ssm_dtype=planned_dtype(self.options.state.ssm_dtype),
            device=self.options.device,
            enable_memory_saver=self.options.enable_memory_saver,
            speculative_num_draft_tokens=speculative.draft_tokens
            if speculative and scratch
            else None,
            conv_slice_axis=1 if geometry.mixer == "kda" else 0,
            conv_shard_groups=geometry.conv_blocks if len(geometry.conv_blocks) > 1 else None,
        )
