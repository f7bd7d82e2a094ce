"""A pool of latent rows on the bench: rows in two parts, and index keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import torch
from torch import Tensor

from kvproto.protocols import (
    BufferRegion,
    DSALeafRequest,
    IndexKeyRows,
    MLALeafRequest,
    ScaledIndexKeyRows,
)

from .broken import LawBroken
from .door_layouts import DoorForm, Rows, form_of
from .kv_bench import KVBench, LayerStub, Side

__all__ = [
    "IndexRow",
    "LatentBench",
    "has_index_keys",
    "has_own_index_keys",
    "is_packed",
    "shares_a_choice",
]

IndexRow = tuple[Tensor, float]
"""The bytes of an index key and its scale."""


class LatentBench(KVBench):
    """The bench of pools that keep a latent and a rope part per token, and perhaps index keys."""

    @property
    def asked(self) -> MLALeafRequest | DSALeafRequest:
        """The request, as one of latent rows."""
        return cast("MLALeafRequest | DSALeafRequest", self.request)

    @property
    def is_split(self) -> bool:
        """Whether the parts of a row were asked to lie in planes of their own."""
        return self.asked.layout in ("latent_split", "latent_split_nz")

    @property
    def shown_sides(self) -> tuple[Side, ...]:
        """Of split rows both doors, each a part; packed ones are whole behind the first."""
        return ("key", "value") if self.is_split and not self.packed else ("key",)

    def shown_row(self, side: Side, rows: Mapping[Side, Tensor]) -> Tensor:
        """The part of a row that a door shows, or all of it."""
        if not self.is_split or self.packed:
            return rows["key"]
        latent, rope = self.split(rows["key"])
        return latent if side == "key" else rope

    def as_shown(self, door: Tensor, side: Side, layer_id: int) -> tuple[Tensor, Tensor]:
        """Of split rows the part that the door shows."""
        if not self.is_split or self.packed:
            return super().as_shown(door, side, layer_id)
        return door.float(), self.shown_row(side, {"key": self.stored("key", layer_id)})

    def door_form(self, side: Side, layer_id: int) -> DoorForm | None:
        """Of split rows the form of a part; of packed ones nothing is left for the second."""
        if not self.is_split:
            return super().door_form(side, layer_id)
        asked = self.asked
        widths = asked.kv_lora_rank, asked.qk_rope_head_dim
        if self.packed:
            widths = self.token_bytes(layer_id), 0
        width = widths[0 if side == "key" else 1]
        rows = Rows(side, self.slots_in(layer_id), asked.page_size, 1, width, asked.dtype.itemsize)
        return form_of(asked.layout, rows)

    @property
    def kv_cache_dim(self) -> int:
        """Elements of a stored row."""
        return self.token_bytes() // self.request.dtype.itemsize

    def latent_rows(self, n: int, salt: int = 0) -> Tensor:
        """`[n, 1, kv_lora_rank + qk_rope_head_dim]`: rows whose parts lie side by side."""
        return self.pair(n, salt)[0]

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Views of the two parts, both with the strides of the whole row."""
        rank = self.asked.kv_lora_rank
        return rows[..., :rank], rows[..., rank:]

    def write_parts(
        self, loc: Tensor, latent: Tensor, rope: Tensor, layer_id: int | None = None
    ) -> None:
        """`set_mla_kv_buffer` on a layer, the first one by default."""
        layer = LayerStub(self.layer_ids[0] if layer_id is None else layer_id)
        self.pool.set_mla_kv_buffer(layer, loc, latent, rope)

    @property
    def index_layers(self) -> tuple[int, ...]:
        """The global ids of the layers that have index keys of their own."""
        return tuple(i for i in self.layer_ids if i not in self.shared_layers)

    @property
    def shared_layers(self) -> tuple[int, ...]:
        """The global ids of the layers that reuse the choice of an earlier one."""
        flags = self.asked.skip_topk_layers if isinstance(self.asked, DSALeafRequest) else ()
        return tuple(i for i, shared in zip(self.layer_ids, flags, strict=False) if shared)

    @property
    def index_head_dim(self) -> int:
        """Width of an index key; 0 where none were asked for."""
        return self.asked.index_head_dim if isinstance(self.asked, DSALeafRequest) else 0

    @property
    def index_dtype(self) -> torch.dtype:
        """What an index key is stored in."""
        name = self.asked.index_element if isinstance(self.asked, DSALeafRequest) else ""
        found: torch.dtype = getattr(torch, name or "float8_e4m3fn")
        return found

    @property
    def index_writer(self) -> str:
        """The method that index keys are set with."""
        rows = isinstance(self.pool, IndexKeyRows)
        return "set_index_k_buffer" if rows else "set_index_k_scale_buffer"

    @property
    def index_tile(self) -> int:
        """Keys, and bytes of each, that lie together in a page; 0 where keys follow each other."""
        asked = self.asked
        tiled = isinstance(asked, DSALeafRequest) and asked.index_layout == "preshuffled"
        return 16 if tiled else 0

    @property
    def index_page_bytes(self) -> int:
        """Bytes of a page of fp8 keys and float32 scales."""
        return self.index_page_size * (self.index_head_dim + 4)

    @property
    def index_kpool(self) -> int:
        """Tokens that share an index key."""
        return self.asked.index_kpool if isinstance(self.asked, DSALeafRequest) else 1

    @property
    def index_page_size(self) -> int:
        """Index keys of a page."""
        return self.request.page_size // self.index_kpool

    @property
    def index_slots(self) -> int:
        """Index slots of a layer that has some, the reserved page's included."""
        return self.slots // self.index_kpool

    def slots_of(self, region: BufferRegion) -> int:
        """Index keys may be fewer than tokens."""
        of_keys = region.fields[0].name in ("index_key", "index_scale")
        return self.index_slots if of_keys else self.slots

    def index_rows(self, n: int, salt: int = 0) -> tuple[Tensor, Tensor]:
        """`n` keys as they are stored and float32 scales, all different; 0 where keys have none."""
        count = torch.arange(n * self.index_head_dim, dtype=torch.int64).view(n, -1)
        column = torch.arange(n).unsqueeze(1)
        keys = ((count + 11 * column + 3 * salt) % 120 + 1).to(torch.uint8)
        if self.index_dtype.itemsize > 1:
            return keys.to(self.index_dtype), torch.zeros(n)
        return keys.view(self.index_dtype), 0.5 + salt + torch.arange(n, dtype=torch.float32)

    def write_index(
        self, loc: Tensor, keys: Tensor, scales: Tensor, layer_id: int | None = None
    ) -> None:
        """Keys and their scales of a layer, by default the first one with index keys."""
        chosen = self.index_layers[0] if layer_id is None else layer_id
        pool: object = self.pool
        if not isinstance(pool, IndexKeyRows):
            self.pool.set_index_k_scale_buffer(chosen, loc, keys, scales)
            return
        pool.set_index_k_buffer(chosen, loc, keys)
        if isinstance(pool, ScaledIndexKeyRows):
            pool.set_index_k_scale_buffer(chosen, loc, scales)

    def fill_index(self) -> None:
        """A key and a scale of its own for every slot but 0, in every layer that has some."""
        loc = torch.arange(1, self.index_slots)
        for layer_id in self.index_layers:
            self.write_index(loc, *self.index_rows(len(loc), salt=layer_id), layer_id)

    def expect_index(
        self, call: str, rows: Mapping[int, IndexRow], layer_id: int | None = None
    ) -> None:
        """Exactly these index keys and scales are stored, and every other slot is zero."""
        key_bytes = self.index_head_dim * self.index_dtype.itemsize
        keys = torch.zeros(self.index_slots, key_bytes, dtype=torch.uint8)
        scales = torch.zeros(self.index_slots)
        for slot, (key, scale) in rows.items():
            keys[slot], scales[slot] = key.view(torch.uint8), scale
        self.expect_index_is(call, keys, scales, layer_id)

    def expect_index_is(
        self, call: str, keys: Tensor, scales: Tensor, layer_id: int | None = None
    ) -> None:
        """These are the index keys and the scales of all slots."""
        chosen = self.index_layers[0] if layer_id is None else layer_id
        got_keys, got_scales = self.oracle.index(chosen)
        self.expect_same(call, got_keys, keys, "index key of slot")
        self.expect_same(call, got_scales.unsqueeze(1), scales.unsqueeze(1), "scale of slot")

    def expect_waits(
        self, door: str, read: Callable[[int], object], layer_ids: Iterable[int]
    ) -> None:
        """With a transfer counter registered, the door waits for the layer it reads, no other."""
        waited: list[int] = []

        class Counter:
            def wait_until(self, threshold: int, /) -> None:
                waited.append(threshold)

        self.pool.register_layer_transfer_counter(Counter())
        for layer_id in layer_ids:
            waited.clear()
            read(layer_id)
            local = layer_id - self.request.start_layer
            if set(waited) != {local}:
                raise LawBroken(
                    f"{door}(layer {layer_id}) with a counter registered",
                    expected=f"a wait for layer {local} of the stage",
                    got=f"waits: {waited or 'none'}",
                )


def has_index_keys(request: object, /) -> bool:
    """For laws that need a layer with index keys of its own."""
    if not isinstance(request, DSALeafRequest):
        return False
    return request.layer_num > sum(request.skip_topk_layers)


def has_own_index_keys(request: object, /) -> bool:
    """For laws about index keys that follow a single token."""
    return has_index_keys(request) and getattr(request, "index_kpool", 1) == 1


def shares_a_choice(request: object, /) -> bool:
    """For laws about layers without index keys of their own."""
    return isinstance(request, DSALeafRequest) and any(request.skip_topk_layers)


def is_packed(request: object, /) -> bool:
    """For laws about rows of fp8 latents, float32 scales and bf16 rope."""
    return isinstance(request, DSALeafRequest) and request.quant_scheme == "dsa_fp8_packed"
