"""Every domain of the traits is closed: a match that names all its values is exhaustive."""

from __future__ import annotations

from typing import assert_never

from kvproto.protocols import (
    Fp8Variant,
    IdSpace,
    IndexScheme,
    Kind,
    Layout,
    QuantScheme,
    ReadDoor,
    Replication,
    Role,
    RowUnit,
    ScaleLayout,
    StateIndexSpace,
    SwaStorage,
    TransferLayout,
)


def kind(value: Kind) -> None:
    match value:
        case (
            "mha"
            | "mla"
            | "dsa"
            | "sparse_index"
            | "key_only"
            | "noop"
            | "swa"
            | "hybrid_linear"
            | "qsa"
            | "compressed"
            | "draft_view"
        ):
            return
        case _:
            assert_never(value)


def layout(value: Layout) -> None:
    match value:
        case (
            "nhd"
            | "hnd"
            | "paged_nhd"
            | "vectorized_5d"
            | "page_envelope"
            | "latent_rows"
            | "latent_split"
            | "latent_split_nz"
            | "packed_pages"
            | "page_rows_nvfp4"
            | "composite"
        ):
            return
        case _:
            assert_never(value)


def quant_scheme(value: QuantScheme) -> None:
    match value:
        case (
            "none"
            | "fp8_scaled"
            | "mxfp8"
            | "fp4_mx16"
            | "nvfp4"
            | "dsa_fp8_packed"
            | "compressed_packed"
        ):
            return
        case _:
            assert_never(value)


def fp8_variant(value: Fp8Variant) -> None:
    match value:
        case "none" | "e4m3fn" | "e4m3fnuz" | "e5m2" | "e5m2fnuz":
            return
        case _:
            assert_never(value)


def scale_layout(value: ScaleLayout) -> None:
    match value:
        case "none" | "token_rows" | "interleaved":
            return
        case _:
            assert_never(value)


def replication(value: Replication) -> None:
    match value:
        case "tp_sharded" | "tp_replicated" | "layer_owned" | "page_interleaved":
            return
        case _:
            assert_never(value)


def id_space(value: IdSpace) -> None:
    match value:
        case "physical" | "virtual" | "device_slot":
            return
        case _:
            assert_never(value)


def swa_storage(value: SwaStorage) -> None:
    match value:
        case "none" | "mapped_pool" | "request_ring" | "full_indices":
            return
        case _:
            assert_never(value)


def index_scheme(value: IndexScheme) -> None:
    match value:
        case (
            "none"
            | "dsa_fp8_scale"
            | "dsa_fp8_scale_preshuffled"
            | "npu_bf16"
            | "npu_fp8_scale"
            | "npu_int8_scale"
            | "sparse_k"
            | "sparse_kv"
            | "qsa_compressed"
            | "compressed_c4"
        ):
            return
        case _:
            assert_never(value)


def state_index_space(value: StateIndexSpace) -> None:
    match value:
        case "none" | "kv_pages" | "swa_pages" | "request_slot" | "state_slot":
            return
        case _:
            assert_never(value)


def transfer_layout(value: TransferLayout) -> None:
    match value:
        case "per_layer" | "component_groups" | "page_envelope" | "ratio_groups" | "owned_layers":
            return
        case _:
            assert_never(value)


def read_door(value: ReadDoor) -> None:
    match value:
        case "alias" | "copy" | "scratch":
            return
        case _:
            assert_never(value)


def role(value: Role) -> None:
    match value:
        case "target" | "draft":
            return
        case _:
            assert_never(value)


def row_unit(value: RowUnit) -> None:
    match value:
        case "tokens" | "device_slots" | "view_rows" | "pages":
            return
        case _:
            assert_never(value)
