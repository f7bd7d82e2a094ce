# pyright: basic, reportMissingImports=false
"""Imported for its effect: tells sglang that this process is the only rank.

Latent pools ask for the decode-context-parallel group, which sglang's launcher announces.
"""

from sglang.srt.runtime_context import get_parallel

get_parallel().override_permanently(attn_dcp_size=1, attn_dcp_rank=0, dcp_enabled=False)
