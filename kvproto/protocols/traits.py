"""What a pool is: closed facts that it declares and that no structure can show."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol, get_args, runtime_checkable

from ._capability import Capability

__all__ = [
    "BLOCK_SCALED",
    "SCALE_BLOCKS",
    "TRAIT_DOMAINS",
    "DeclaresTraits",
    "Fp8Variant",
    "IdSpace",
    "IndexLayout",
    "IndexScheme",
    "Kind",
    "Layout",
    "PoolTraits",
    "QuantScheme",
    "ReadDoor",
    "Replication",
    "Role",
    "RowUnit",
    "ScaleLayout",
    "StateIndexSpace",
    "SwaStorage",
    "TransferLayout",
]

Kind = Literal[
    "mha",
    "mla",
    "dsa",
    "sparse_index",
    "key_only",
    "noop",
    "swa",
    "hybrid_linear",
    "qsa",
    "compressed",
    "draft_view",
]
"""What a token is to attention: K and V rows (`mha`), a latent row (`mla`), ..., a composite."""

Layout = Literal[
    "nhd",
    "hnd",
    "paged_nhd",
    "vectorized_5d",
    "page_envelope",
    "latent_rows",
    "latent_split",
    "latent_split_nz",
    "packed_pages",
    "page_rows_nvfp4",
    "composite",
]
"""How rows lie in memory: `nhd` `[slots, heads, dim]`, `paged_nhd` `[pages, page, heads, dim]`.

`latent_split` keeps the two parts of a latent row in planes of their own, each `[pages, page, 1,
width]`; in `latent_split_nz` a page of either is `[width / c0, page, c0]`, c0 being 32 bytes of
elements. A packed row lies whole in the first plane, and the second has no width.
"""

QuantScheme = Literal[
    "none",
    "fp8_scaled",
    "mxfp8",
    "fp4_mx16",
    "nvfp4",
    "dsa_fp8_packed",
    "compressed_packed",
]
"""How stored numbers stand for real ones; `fp8_scaled` is per-tensor scales, None meaning 1.

Block-scaled schemes keep a scale for every few elements, and store `x / scale` to the nearest even,
saturated. `mxfp8`: e4m3fn, 32 elements, UE8M0 scales: the smallest power of two under which no
finite element saturates. `fp4_mx16`: E2M1, two in a byte, the even element in the low nibble, 16
elements, scales as in `mxfp8`. `nvfp4`: the same elements, e4m3fn scales: the largest magnitude
over 6 to the nearest, under one float32 scale per layer and side.
"""

BLOCK_SCALED: tuple[QuantScheme, ...] = ("mxfp8", "fp4_mx16", "nvfp4")
"""The schemes whose block scales lie beside the rows, in tensors of their own."""

SCALE_BLOCKS: dict[QuantScheme, int] = {"mxfp8": 32, "fp4_mx16": 16, "nvfp4": 16}
"""How many elements of a row share a scale, by scheme."""

Fp8Variant = Literal["none", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"]
"""Which fp8: the same byte is another number in each."""

ScaleLayout = Literal["none", "token_rows", "interleaved"]
"""Where block scales lie: by token like the rows, or in atoms of 32 tokens within a page."""

Replication = Literal["tp_sharded", "tp_replicated", "layer_owned", "page_interleaved"]
"""Which ranks hold a token's rows: each its heads, each all, or the owner of a layer or page."""

IdSpace = Literal["physical", "virtual", "device_slot"]
"""What the locations a caller passes are."""

SwaStorage = Literal["none", "mapped_pool", "request_ring", "full_indices"]
"""Where window layers live: nowhere, in a mapped pool, in a ring per request, at full locations."""

IndexScheme = Literal[
    "none",
    "dsa_fp8_scale",
    "dsa_fp8_scale_preshuffled",
    "npu_bf16",
    "npu_fp8_scale",
    "npu_int8_scale",
    "sparse_k",
    "sparse_kv",
    "qsa_compressed",
    "compressed_c4",
]
"""How index keys are stored, where there are any; fp8 ones in which `IndexLayout`, too.

`dsa_fp8_scale`: fp8, in pages with their scales (`IndexerCapable`). `npu_bf16`: rows of the
latents' type (`IndexKeyRows`); `npu_fp8_scale` and `npu_int8_scale`: quantised rows, and their
scales in tensors of their own (`ScaledIndexKeyRows`).
"""

IndexLayout = Literal["token_rows", "preshuffled"]
"""The keys of an index page one after another, or in tiles of 16 bytes of 16 keys each.

Preshuffled, byte `d` of key `t` is at `[t // 16, d // 16, t % 16, d % 16]` of the keys of its page,
which is the order in which AMD's matrix instructions take them; scales are as they are. A page
then has whole tiles: a multiple of 16 keys, of a multiple of 16 bytes.
"""

StateIndexSpace = Literal["none", "kv_pages", "swa_pages", "request_slot", "state_slot"]
"""By which ids the state regions of `StateTransferable` are addressed."""

TransferLayout = Literal[
    "per_layer", "component_groups", "page_envelope", "ratio_groups", "owned_layers"
]
"""How `get_contiguous_buf_infos` orders its regions.

`component_groups`: the layers of one kind of row, then those of the next; entries of a group are of
one item length, groups may differ in it.
"""

ReadDoor = Literal["alias", "copy", "scratch"]
"""What read doors return: the storage, a fresh dequantised copy, or a buffer soon overwritten."""

Role = Literal["target", "draft"]
"""Whose tokens these are in speculative decoding."""

RowUnit = Literal["tokens", "device_slots", "view_rows", "pages"]
"""What `size` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTraits:
    """The declared facts of one pool; the defaults are those of a plain target leaf.

    A frozen value: compare, print and match it. Wrong values never get in.

    :raises ValueError: for a value outside a field's domain, and for contradictions.
    """

    kind: Kind
    layout: Layout
    quant_scheme: QuantScheme = "none"
    fp8_variant: Fp8Variant = "none"
    scale_layout: ScaleLayout = "none"
    replication: Replication = "tp_sharded"
    id_space: IdSpace = "physical"
    swa_storage: SwaStorage = "none"
    index_scheme: IndexScheme = "none"
    state_index_space: StateIndexSpace = "none"
    transfer_layout: TransferLayout = "per_layer"
    read_door: ReadDoor = "alias"
    role: Role = "target"
    rows_are: RowUnit = "tokens"

    def __post_init__(self) -> None:
        for name, domain in TRAIT_DOMAINS.items():
            value: object = getattr(self, name)
            if value not in domain:
                raise ValueError(f"PoolTraits.{name}={value!r}: must be one of {', '.join(domain)}")
        if self.quant_scheme == "fp8_scaled" and self.fp8_variant == "none":
            raise ValueError(
                "PoolTraits.fp8_variant='none': quant_scheme='fp8_scaled' stores fp8, say which"
            )
        if self.scale_layout != "none" and self.quant_scheme not in BLOCK_SCALED:
            raise ValueError(
                f"PoolTraits.scale_layout={self.scale_layout!r}: quant_scheme="
                f"{self.quant_scheme!r} keeps no block scales, {', '.join(BLOCK_SCALED)} do"
            )

    @property
    def stores_kv(self) -> bool:
        """Whether rows are kept at all: where not, nothing can be read back, moved or exported."""
        return self.kind != "noop"


TRAIT_DOMAINS: dict[str, tuple[str, ...]] = {
    "kind": get_args(Kind),
    "layout": get_args(Layout),
    "quant_scheme": get_args(QuantScheme),
    "fp8_variant": get_args(Fp8Variant),
    "scale_layout": get_args(ScaleLayout),
    "replication": get_args(Replication),
    "id_space": get_args(IdSpace),
    "swa_storage": get_args(SwaStorage),
    "index_scheme": get_args(IndexScheme),
    "state_index_space": get_args(StateIndexSpace),
    "transfer_layout": get_args(TransferLayout),
    "read_door": get_args(ReadDoor),
    "role": get_args(Role),
    "rows_are": get_args(RowUnit),
}
"""The legal values of every field of `PoolTraits`, in declaration order."""

if tuple(TRAIT_DOMAINS) != tuple(field.name for field in fields(PoolTraits)):
    raise TypeError("TRAIT_DOMAINS and PoolTraits name different fields")


@runtime_checkable
class DeclaresTraits(Capability, Protocol):
    """Does the pool say what it is?"""

    @property
    def pool_traits(self) -> PoolTraits:
        """The declared facts; constant for the life of the pool."""
        ...
