"""Leaves of latent rows, plain, fp8 and packed, with index keys and without."""

from __future__ import annotations

import torch

from kvproto.protocols import DSALeafRequest, IndexLayout, Layout, MLALeafRequest

from .spec import Spec

__all__ = ["LATENT_SPECS"]

FN, FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz
PLAIN: tuple[torch.dtype, IndexLayout] = (torch.bfloat16, "token_rows")


def _mla(
    name: str,
    page_size: int,
    layers: range,
    dtype: torch.dtype,
    pages: int = 6,
    *,
    layout: Layout = "latent_rows",
    widths: tuple[int, int] = (16, 8),
) -> Spec:
    request = MLALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        kv_lora_rank=widths[0],
        qk_rope_head_dim=widths[1],
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
        layout=layout,
    )
    return Spec(f"mla-{name}", request)


def _split(
    name: str,
    page_size: int,
    layers: range,
    dtype: torch.dtype,
    *,
    widths: tuple[int, int] = (16, 8),
    nz: bool = False,
    pages: int = 2,
) -> Spec:
    layout: Layout = "latent_split_nz" if nz else "latent_split"
    called = f"{'split-nz' if nz else 'split'}-{name}"
    return _mla(called, page_size, layers, dtype, pages, layout=layout, widths=widths)


def _dsa(
    name: str,
    page_size: int,
    layers: range,
    *,
    widths: tuple[int, int, int] = (16, 8, 16),
    packed: bool = False,
    shared: tuple[bool, ...] = (),
    pages: int = 3,
    group: int = 1,
    tails: tuple[int, int] | None = None,
    keys: tuple[torch.dtype, IndexLayout] | None = None,
    layout: Layout = "latent_rows",
) -> Spec:
    rank, rope, index = widths
    element, index_layout = keys or (torch.float8_e4m3fn, "token_rows")
    raw = element == torch.float8_e4m3fnuz
    request = DSALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=element if packed or raw else torch.bfloat16,
        quant_scheme="dsa_fp8_packed" if packed else "fp8_scaled" if raw else "none",
        kv_lora_rank=rank,
        qk_rope_head_dim=rope,
        index_head_dim=index,
        index_dtype=None if keys is None else element,
        index_layout=index_layout,
        layout=layout,
        skip_topk_layers=shared,
        index_kpool=group,
        index_kpool_compress=tails is not None,
        tail_extra_slots=0 if tails is None else tails[1],
        max_running_requests=None if tails is None else tails[0],
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
    )
    return Spec(f"dsa-{name}", request)


LATENT_SPECS: tuple[Spec, ...] = (
    _mla("fp8-e4m3fn-page64", 64, range(1, 3), torch.float8_e4m3fn),
    _mla("fp8-e5m2-page1", 1, range(4, 5), torch.float8_e5m2),
    _mla("fp8-e4m3fnuz-page16", 16, range(2), torch.float8_e4m3fnuz),
    _mla("fp8-e4m3fn-page128-stage", 128, range(6, 8), torch.float8_e4m3fn, pages=2),
    _mla("fp8-e5m2-page256", 256, range(3, 4), torch.float8_e5m2, pages=2),
    _split("bf16-page1", 1, range(2), torch.bfloat16, pages=9),
    _split("bf16-page128-stage", 128, range(6, 9), torch.bfloat16, widths=(32, 16)),
    _split("fp8-e4m3fn-page16", 16, range(1, 3), torch.float8_e4m3fn),
    _split("fp16-page64-no-rope", 64, range(3, 4), torch.float16, widths=(16, 0)),
    _split("no-layers", 64, range(4, 4), torch.bfloat16),
    _split("bf16-page128-stage", 128, range(6, 9), torch.bfloat16, widths=(32, 16), nz=True),
    _split("fp8-e4m3fn-page16", 16, range(1, 3), torch.float8_e4m3fn, widths=(64, 32), nz=True),
    _split("fp32-page4", 4, range(2), torch.float32, nz=True),
    _dsa("bf16-page128", 128, range(2, 4)),
    _dsa("packed-page256-stage", 256, range(1, 2), widths=(128, 8, 16), packed=True),
    _dsa("bf16-page64-stage", 64, range(8, 10), widths=(32, 8, 128)),
    _dsa("packed-page64", 64, range(2), widths=(512, 64, 128), packed=True),
    _dsa("packed-page16-stage", 16, range(3, 5), widths=(256, 8, 32), packed=True),
    _dsa("bf16-page64-shared", 64, range(5, 9), shared=(False, True, False, True)),
    _dsa("bf16-page1", 1, range(1, 3), pages=9),
    _dsa("bf16-page16-all-shared", 16, range(2, 3), shared=(True,)),
    _dsa("bf16-page64-no-rope", 64, range(2), widths=(32, 0, 128)),
    _dsa("pooled-page8", 8, range(2, 4), group=4, pages=4),
    _dsa("pooled-page128-tails", 128, range(1, 3), widths=(16, 8, 128), group=2, tails=(3, 1)),
    _dsa(
        "pooled-page16-tails-shared",
        16,
        range(6, 9),
        shared=(False, True, False),
        group=4,
        pages=4,
        tails=(5, 3),
    ),
    _dsa("preshuffled-page32", 32, range(2, 4), widths=(16, 8, 32), keys=(FN, "preshuffled")),
    _dsa("raw-fnuz-page1", 1, range(2), widths=(16, 8, 32), pages=9, keys=(FNUZ, "token_rows")),
    _dsa("raw-fnuz-preshuffled-page16", 16, range(1, 3), keys=(FNUZ, "preshuffled")),
    _dsa(
        "pooled-fnuz-preshuffled-page64-tails",
        64,
        range(3, 5),
        widths=(16, 8, 32),
        group=4,
        tails=(3, 1),
        keys=(FNUZ, "preshuffled"),
    ),
    _dsa("no-layers", 64, range(4, 4)),
    _dsa("split-bf16-page1", 1, range(2), pages=9, layout="latent_split", keys=PLAIN),
    _dsa(
        "split-bf16-page64-shared",
        64,
        range(5, 9),
        shared=(False, True, False, True),
        layout="latent_split",
        keys=PLAIN,
    ),
    _dsa("split-bf16-page128-scaled", 128, range(2, 4), pages=2, layout="latent_split"),
    _dsa(
        "split-packed-page16-shared",
        16,
        range(3, 6),
        widths=(256, 8, 32),
        packed=True,
        shared=(True, False, False),
        layout="latent_split",
    ),
    _dsa(
        "split-packed-page64",
        64,
        range(2),
        widths=(512, 64, 128),
        packed=True,
        layout="latent_split",
    ),
    _dsa("split-no-layers", 64, range(4, 4), layout="latent_split", keys=PLAIN),
)
"""fp8 latents, and sparse attention's rows: some layers reuse an earlier one's choice.

Some index keys lie in tiles, and some are of the fp8 whose numbers rows have then, too.
"""
