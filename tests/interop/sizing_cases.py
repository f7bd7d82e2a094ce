"""The models, ranks and memory that both sides size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ARCHITECTURES", "CASES", "CONTEXT_LEN", "SizingCase", "as_published"]

GIB = 1 << 30
CONTEXT_LEN = 4096
"""Of every case: two families state none, and what fits does not depend on it."""

ARCHITECTURES = {
    "cohere2": "Cohere2ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "kimi_k25": "KimiK25ForConditionalGeneration",
    "kimi_linear": "KimiLinearForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "longcat_flash": "LongcatFlashForCausalLM",
    "mimo_v2_flash": "MiMoV2FlashForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "minimax_m3_vl": "MiniMaxM3SparseForConditionalGeneration",
    "mistral": "MistralForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen4_exp": "Qwen4ExpForConditionalGeneration",
    "step3p7": "Step3p7ForConditionalGeneration",
}
STATEFUL = (
    "falcon_h1",
    "granitemoehybrid",
    "kimi_linear",
    "lfm2",
    "nemotron_h",
    "qwen3_5_text",
    "qwen3_next",
    "qwen4_exp",
)
PAIRED = ("gpt_oss", "mimo_v2_flash", "step3p7")
# Families whose windowed layers keep the whole context in sglang 0.5.23.
UNPAIRED = ("cohere2", "exaone4", "gemma2", "gemma3_text", "llama4_text", "mistral", "olmo3")
PLAIN = tuple(n for n in ARCHITECTURES if n not in (*STATEFUL, *PAIRED, *UNPAIRED))

_KDA = [i for i in range(1, 28) if i % 4 and i != 27]
_PUBLISHED: dict[str, dict[str, Any]] = {
    "granitemoehybrid": {
        "layer_types": ["attention" if i % 8 == 5 else "mamba" for i in range(32)]
    },
    "kimi_linear": {
        "layer_types": None,
        "linear_attn_config": {
            "full_attn_layers": [i for i in range(1, 28) if i not in _KDA],
            "kda_layers": _KDA,
            "head_dim": 128,
            "num_heads": 32,
            "short_conv_kernel_size": 4,
        },
    },
    "lfm2": {"layer_types": ["conv" if i % 3 else "full_attention" for i in range(32)]},
    "mimo_v2_flash": {
        "layer_types": None,
        "hybrid_layer_pattern": [int(i % 6 > 0) for i in range(48)],
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
    },
    "minimax_m3_vl": {
        "sparse_attention_config": {
            "use_sparse_attention": True,
            "sparse_attention_freq": [0] * 3 + [1] * 57,
            "sparse_disable_index_value": [1] * 40 + [0] * 20,
            "sparse_index_dim": 128,
            "sparse_block_size": 128,
            "sparse_topk_blocks": 16,
            "sparse_num_index_heads": 4,
        }
    },
    "nemotron_h": {
        "layers_block_type": ["mamba", "mlp", "mamba", "attention"] * 4,
        "num_hidden_layers": 16,
    },
    "qwen3_5_text": {"full_attention_interval": 4},
    "qwen3_next": {"full_attention_interval": 4},
    "step3p7": {
        "layer_types": ["sliding_attention" if i % 4 else "full_attention" for i in range(45)],
        "sliding_window": 512,
        "attention_other_setting": {
            "attention_type": "sliding_attention",
            "num_attention_heads": 96,
            "num_attention_groups": 8,
            "head_dim": 128,
        },
    },
}
"""What checkpoints state of their layers, and the config class of the family leaves out."""


def as_published(model: str, config: dict[str, Any]) -> dict[str, Any]:
    """A config of that family with what its checkpoints state beside the class's defaults."""
    stated = _PUBLISHED.get(model, {})
    inner = config.get("text_config")
    return config | ({"text_config": inner | stated} if inner is not None else stated)


@dataclass(frozen=True, kw_only=True)
class SizingCase:
    """One call of the sizing code; `layers` is a stage's, None for all.

    `draft` is a model that predicts ahead: of `draft_layers` layers like the model's for `eagle`,
    of its own config for `dflash`. `uncounted` are bytes of a token that sglang allocates and that
    its sizing leaves out.
    """

    model: str
    tp: int = 1
    page_size: int = 64
    kv_dtype: str = "auto"
    layers: tuple[int, int] | None = None
    budget: int = 40 * GIB
    window_ratio: float = 0.8
    state_ratio: float = 0.9
    prefix_cache: bool = True
    window_pools: bool = True
    max_running_requests: int | None = None
    dsa_rows: str = "packed"
    dcp: int = 1
    draft_kind: str | None = None
    draft: str | None = None
    draft_layers: int = 1
    draft_kv_dtype: str | None = None
    draft_tokens: int = 4
    draft_steps: int = 3
    uncounted: int = 0

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
    *(SizingCase(model=name, window_pools=False) for name in UNPAIRED),
    *(SizingCase(model=name, tp=2, kv_dtype="fp8_e4m3", window_pools=False) for name in UNPAIRED),
    *(SizingCase(model=name) for name in PAIRED),
    SizingCase(model="gpt_oss", tp=4, window_ratio=0.25, kv_dtype="fp8_e4m3"),
    SizingCase(model="gpt_oss", layers=(12, 24), page_size=16),
    SizingCase(model="gpt_oss", prefix_cache=False, max_running_requests=96),
    *(SizingCase(model=name) for name in STATEFUL),
    SizingCase(model="qwen3_next", tp=2, state_ratio=0.5),
    SizingCase(model="qwen3_next", prefix_cache=False, max_running_requests=32),
    SizingCase(model="falcon_h1", tp=4),
    *(
        SizingCase(model=name, draft_kind="eagle", draft_layers=2)
        for name in ("llama", "qwen3_moe", "deepseek_v3", "deepseek_v32", "gpt_oss")
    ),
    SizingCase(model="qwen3_next", draft_kind="eagle", max_running_requests=32),
    SizingCase(model="gpt_oss", draft_kind="eagle", draft="gpt_oss", draft_layers=1),
    SizingCase(
        model="gpt_oss",
        draft_kind="eagle",
        draft="gpt_oss",
        prefix_cache=False,
        max_running_requests=96,
    ),
    SizingCase(model="deepseek_v3", tp=8, kv_dtype="fp8_e4m3", draft_kind="dflash", draft="qwen3"),
    SizingCase(model="gpt_oss", tp=4, draft_kind="dflash", draft="llama", draft_layers=3),
    SizingCase(model="llama", draft_kind="dflash", draft="qwen3", draft_kv_dtype="fp8_e4m3"),
    *(SizingCase(model=name, tp=8, dcp=4) for name in ("llama", "qwen3", "deepseek_v3")),
    SizingCase(model="llama", tp=8, dcp=2, draft_kind="eagle", page_size=16),
    SizingCase(model="deepseek_v32", tp=8, kv_dtype="fp8_e4m3", dsa_rows="raw"),
    SizingCase(model="deepseek_v32", kv_dtype="fp8_e4m3", draft_kind="eagle"),
    SizingCase(model="deepseek_v32", tp=8, dcp=4),
    SizingCase(model="glm_moe_dsa", tp=8, dcp=2, kv_dtype="fp8_e4m3", dsa_rows="raw"),
    SizingCase(model="deepseek_v32", tp=8, dcp=4, draft_kind="eagle", draft_layers=2),
    # A latent draft is whole on each of the four ranks; the count has one rank's share of its row.
    SizingCase(model="deepseek_v3", tp=8, dcp=4, draft_kind="eagle", uncounted=3 * (512 + 64) * 2),
    SizingCase(model="llama", tp=8, dcp=2, draft_kind="dflash", draft="qwen3", draft_layers=5),
)
