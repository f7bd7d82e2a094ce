# pyright: basic, reportMissingImports=false
"""sglang's own classes of the models that are played; all of its models take seconds to import."""

from __future__ import annotations

from sglang.srt.models.commandr import Cohere2ForCausalLM
from sglang.srt.models.deepseek_v2 import DeepseekV2ForCausalLM
from sglang.srt.models.lfm2 import Lfm2ForCausalLM
from sglang.srt.models.llama import LlamaForCausalLM

__all__ = ["EntryClass"]

EntryClass = [Cohere2ForCausalLM, DeepseekV2ForCausalLM, Lfm2ForCausalLM, LlamaForCausalLM]
