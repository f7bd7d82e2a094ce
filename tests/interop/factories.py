# pyright: basic, reportMissingImports=false
"""Factories for the kit: each builds one of sglang's real leaves for a request.

    kvproto check tests.interop.factories:mha --isolate every    (python of .interop-venv)

Without `--isolate` the interpreted kernels, which write where they are told, end the process.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import (
    DSATokenToKVPool,
    MHATokenToKVPool,
    MiniMaxSparseKVPool,
    MLATokenToKVPool,
)

from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)
from tests.interop import saver, single_rank  # noqa: F401

__all__ = ["dsa", "leaf", "mha", "mla", "sparse"]


def _import_the_engine() -> None:
    """A first write imports most of sglang: done here, since the kit runs laws in children."""
    pool = MHATokenToKVPool(
        size=1,
        page_size=1,
        dtype=torch.float32,
        head_num=1,
        head_dim=1,
        layer_num=1,
        device="cpu",
        enable_memory_saver=False,
    )
    row = torch.ones(1, 1, 1)
    pool.set_kv_buffer(None, torch.tensor([1]), row, row, layer_id_override=0)


_import_the_engine()


def mha(request: Any) -> MHATokenToKVPool | Declined:
    """sglang's plain pool of key and value rows, which may move them."""
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            return MHATokenToKVPool(**request.keywords(), enable_kv_cache_copy=True)
    return Declined("MHATokenToKVPool holds K and V rows in NHD layout")


def mla(request: Any) -> MLATokenToKVPool | Declined:
    """sglang's plain pool of latent rows."""
    match request:
        case MLALeafRequest(layout="latent_rows", quant_scheme="none" | "fp8_scaled"):
            return MLATokenToKVPool(**request.keywords())
    return Declined("MLATokenToKVPool holds latent rows")


def dsa(request: Any) -> DSATokenToKVPool | Declined:
    """sglang's pool of latent rows and index keys."""
    match request:
        case DSALeafRequest(
            page_size=64,
            index_head_dim=128,
            index_dtype=None,
            index_layout="token_rows",
            layout="latent_rows",
        ):
            return DSATokenToKVPool(**request.keywords())
    return Declined("DSATokenToKVPool has pages of 64 and index keys of 128")


def sparse(request: Any) -> MiniMaxSparseKVPool | Declined:
    """sglang's pool of K and V rows with index rows beside them."""
    match request:
        case SparseIndexLeafRequest(layout="nhd"):
            return MiniMaxSparseKVPool(**_with_lists(request.keywords()))
    return Declined("MiniMaxSparseKVPool holds K and V rows, and index rows of sparse layers")


def _with_lists(keywords: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in keywords.items()}


def leaf(request: Any) -> Any:
    """The leaf that a composite of sglang's would build."""
    match request:
        case MHALeafRequest():
            return mha(request)
        case MLALeafRequest():
            return mla(request)
        case DSALeafRequest():
            return dsa(request)
        case SparseIndexLeafRequest():
            return sparse(request)
    return Declined("no leaf")
