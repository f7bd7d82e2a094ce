"""The models, ranks and memory that both sides size."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CASES", "SizingCase"]

GIB = 1 << 30

_ARCHITECTURES = {
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "llama": "LlamaForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
}
PLAIN = tuple(name for name in _ARCHITECTURES if name not in ("gpt_oss", "qwen3_next", "falcon_h1"))


@dataclass(frozen=True, kw_only=True)
class SizingCase:
    """One call of the sizing code; `layers` is a stage's, None for all."""

    model: str
    tp: int = 1
    page_size: int = 64
    kv_dtype: str = "auto"
    layers: tuple[int, int] | None = None
    budget: int = 40 * GIB
    window_ratio: float = 0.8
    state_ratio: float = 0.9
    prefix_cache: bool = True
    max_running_requests: int | None = None
    architecture: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", _ARCHITECTURES[self.model])

    @property
    def name(self) -> str:
        """The case in one word."""
        return "/".join(str(getattr(self, n)) for n in self.__dataclass_fields__)


CASES: tuple[SizingCase, ...] = (
    *(SizingCase(model=name) for name in PLAIN),
    *(SizingCase(model=name, tp=8, kv_dtype="fp8_e4m3", page_size=16) for name in PLAIN),
    *(SizingCase(model=name, kv_dtype="fp8_e5m2") for name in ("llama", "deepseek_v3")),
    SizingCase(model="llama", tp=4, kv_dtype="mxfp8"),
    SizingCase(model="llama", layers=(8, 20)),
    SizingCase(model="gpt_oss"),
    SizingCase(model="gpt_oss", tp=4, window_ratio=0.25, kv_dtype="fp8_e4m3"),
    SizingCase(model="gpt_oss", layers=(12, 24), page_size=16),
    SizingCase(model="gpt_oss", prefix_cache=False, max_running_requests=96),
    SizingCase(model="qwen3_next"),
    SizingCase(model="qwen3_next", tp=2, state_ratio=0.5),
    SizingCase(model="qwen3_next", prefix_cache=False, max_running_requests=32),
    SizingCase(model="falcon_h1", tp=4),
)
