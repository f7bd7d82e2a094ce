"""Leaves that are wrong in a way that shows once a plan says what they have to be."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportPrivateUsage=false
# These leaves are wrong on purpose.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor

from kvproto.configurator import CPU
from kvproto.protocols import BufferRegion, LeafRequest
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf, MXFP8Leaf

from ..deployment import Deployer
from ..kv_bench import LayerStub
from .deployments import REVIEW, WrongPlatform, platform, wrong

T = TypeVar("T")


def leaf(law: str, *models: str, source: str = "") -> Callable[[type[T]], type[T]]:
    """Register a class of leaves, as those of a platform that builds no other."""

    def register(cls: type[T]) -> type[T]:
        kind: Any = cls

        class Builds(WrongPlatform):
            def build_leaf(self, request: LeafRequest, /) -> Any:
                return kind(**request.keywords())

        wrong(cls.__name__, law, *models, of=Deployer(Builds()), source=source)
        return cls

    return register


@leaf("builder.bytes", "llama-page1", "gpt_oss-page16-hnd")
class KeepsValuesTwice(MHALeaf):
    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.spare = [values.clone() for values in self.v_buffer]


@leaf("builder.slots", "llama-page1", "llama-page16-paged-nhd")
class TakesAPageMore(MHALeaf):
    def __init__(self, *, size: int, page_size: int, **keywords: Any) -> None:
        super().__init__(size + page_size, page_size, **keywords)
        self.size = size


@leaf("builder.bytes", "llama-page1")
class TakesAPageMoreThanItDeclares(TakesAPageMore):
    def _row_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(replace(r, page_count=r.page_count - 1) for r in super()._row_regions())


@leaf("builder.layers", "llama-page16-stage2")
class DeclaresLayersByPosition(MHALeaf):
    def _row_regions(self) -> tuple[BufferRegion, ...]:
        local = tuple(range(self.layer_num))
        return tuple(replace(region, layer_ids=local) for region in super()._row_regions())


@leaf("builder.geometry", "mimo_v2_flash-page1")
class SwapsTheWidths(MHALeaf):
    def __init__(self, *, head_dim: int, v_head_dim: int | None, **keywords: Any) -> None:
        values = head_dim if v_head_dim is None else v_head_dim
        super().__init__(head_dim=values, v_head_dim=head_dim, **keywords)
        self.head_dim, self.v_head_dim = head_dim, values


@leaf("builder.layout", "llama-page16-hnd", source=REVIEW)
class ReportsHeadsFirstAndBuildsTokensFirst(MHALeaf):
    def __init__(self, *, kv_cache_layout: Any, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.pool_traits = replace(self.pool_traits, layout=kv_cache_layout)


@leaf("builder.layout", "llama-page16-stage2", source=REVIEW)
class ReportsTokensFirstAndBuildsHeadsFirst(MHALeaf):
    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords, kv_cache_layout="hnd")
        self.pool_traits = replace(self.pool_traits, layout="nhd")


@leaf("builder.layout", "llama-page16-paged-nhd")
class ShowsHeadsFirstAsIfTokensWere(MHALeaf):
    def __init__(self, *, kv_cache_layout: Any, **keywords: Any) -> None:
        super().__init__(**keywords, kv_cache_layout="hnd")
        self.pool_traits = replace(self.pool_traits, layout=kv_cache_layout)

    def _read(self, buffers: list[Tensor], layer_id: int) -> Tensor:
        return super()._read(buffers, layer_id).transpose(1, 2)


@leaf("builder.dtype", "llama-page128-mxfp8")
class ScalesInAnotherType(MXFP8Leaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(
                region,
                fields=tuple(
                    replace(field, element="float8_e4m3fn") if "scale" in field.name else field
                    for field in region.fields
                ),
            )
            for region in super().buffer_regions()
        )


@leaf("builder.device", "llama-page1")
class LivesElsewhere(MHALeaf):
    def __init__(self, **keywords: Any) -> None:
        asked = keywords.pop("device")
        super().__init__(**keywords, device="meta")
        self.device = asked


@leaf("builder.write-read", "llama-page1", "qwen3_next-page64-fp8")
class WritesOneLayerOnwards(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        last = self.end_layer - 1
        super().set_kv_buffer(LayerStub(min(layer.layer_id + 1, last)), loc_info, *rows, **named)


@leaf("builder.layers", "glm_moe_dsa_shared-page1")
class HasIndexKeysOfItsOwnInEveryLayer(DSALeaf):
    def __init__(self, *, skip_topk_layers: Any, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.shared = skip_topk_layers


@leaf("builder.geometry", "deepseek_v3-page16-stage2")
class SwapsLatentAndRope(MLALeaf):
    def __init__(self, *, kv_lora_rank: int, qk_rope_head_dim: int, **keywords: Any) -> None:
        super().__init__(kv_lora_rank=qk_rope_head_dim, qk_rope_head_dim=kv_lora_rank, **keywords)
        self.kv_lora_rank, self.qk_rope_head_dim = kv_lora_rank, qk_rope_head_dim


@leaf("builder.layout", "llama-page128-mxfp8")
class ReportsInterleavedScalesAndKeepsThemByToken(MXFP8Leaf):
    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords, scale_layout="token_rows")
        self.pool_traits = replace(self.pool_traits, scale_layout="interleaved")


@leaf("builder.write-read", "deepseek_v32-page1")
class StoresIndexKeysASlotOn(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor, /
    ) -> None:
        super().set_index_k_scale_buffer(layer_id, loc + 1, index_k, index_k_scale)


class ReadsTiles(WrongPlatform):
    """A device whose kernels read index keys of e4m3fnuz in tiles."""

    capabilities = replace(
        CPU, fp8_variant="e4m3fnuz", dsa_rows=("raw",), index_layout="preshuffled"
    )

    instead: Mapping[str, Any] = {}

    def build_leaf(self, request: LeafRequest, /) -> Any:
        keywords: dict[str, Any] = {**request.keywords(), **self.instead}
        return DSALeaf(**keywords)


@platform("builder.layout", "deepseek_v32-page64-fp8")
class KeepsPlannedTilesInRows(ReadsTiles):
    instead: Mapping[str, Any] = {"index_layout": "token_rows"}


@platform("builder.dtype", "deepseek_v32-page64-fp8", source="vllm-project/vllm#45720")
class KeepsPlannedKeysAsE4m3fn(ReadsTiles):
    instead: Mapping[str, Any] = {"index_dtype": None}
