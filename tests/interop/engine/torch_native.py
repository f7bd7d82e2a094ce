# pyright: basic, reportMissingImports=false
"""Test-only patches of sglang's attention backend `torch_native`, for faults that are its own.

With window layers it looks up rows by the slots of the full space, and lets a query see one token
more than the window: the patch translates slots as the pool says, and takes the token away. With
latent rows it is taken for a backend that gets keys and values per head: the patch registers the
latent form. sglang's Triton backend has neither fault. No pool's methods are touched.
"""

from __future__ import annotations

from typing import Any

__all__ = ["mend"]


def mend() -> None:
    """Patch sglang's classes, once per process."""
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
    from sglang.srt.models.deepseek_common.attention_backend_handler import (
        AttentionBackendRegistry,
    )
    from sglang.srt.models.deepseek_common.attention_forward_methods.forward_methods import (
        AttnForwardMethod,
    )

    for name in ("_run_sdpa_forward_extend", "_run_sdpa_forward_decode"):
        setattr(TorchNativeAttnBackend, name, _mended(getattr(TorchNativeAttnBackend, name)))
    AttentionBackendRegistry.register("torch_native", lambda *_: AttnForwardMethod.MLA)


def _mended(forward: Any) -> Any:
    def in_window(
        self: Any,
        query: Any,
        output: Any,
        keys: Any,
        values: Any,
        req_to_token: Any,
        *arguments: Any,
        sliding_window_size: int | None = None,
        **named: Any,
    ) -> Any:
        if sliding_window_size is not None and self.use_sliding_window_kv_pool:
            req_to_token = self.token_to_kv_pool.translate_loc_from_full_to_swa(req_to_token)
            sliding_window_size -= 1
        named["sliding_window_size"] = sliding_window_size
        return forward(self, query, output, keys, values, req_to_token, *arguments, **named)

    return in_window
