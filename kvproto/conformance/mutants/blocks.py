"""Pools under block scales, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from kvproto.kernels import quantise_mxfp8
from kvproto.protocols import BufferRegion, Declined, MHALeafRequest, MLALeafRequest
from kvproto.reference import FP4Leaf, MLAFP4Leaf, MXFP8Leaf, NVFP4Leaf
from kvproto.reference.block_rows import BlockRows, Quantised
from kvproto.reference.composite_pool import CompositePool
from kvproto.reference.fp4 import FourBitLeaf
from kvproto.reference.scale_layout import InterleavedScales

from .composite_builders import composite
from .registry import MUTANTS, Mutant

__all__ = ["blocks"]

T = TypeVar("T", bound=type)

_SCHEMES: dict[type, tuple[type, str]] = {
    MXFP8Leaf: (MHALeafRequest, "mxfp8"),
    FP4Leaf: (MHALeafRequest, "fp4_mx16"),
    NVFP4Leaf: (MHALeafRequest, "nvfp4"),
    MLAFP4Leaf: (MLALeafRequest, "fp4_mx16"),
}


def blocks(law: str, *, source: str = "") -> Callable[[T], T]:
    """Register a faulty leaf of one scheme, which `law` kills."""

    def register(cls: T) -> T:
        leaf, (kind, scheme) = next(e for e in _SCHEMES.items() if issubclass(cls, e[0]))

        def build(request: Any) -> Any:
            known: Any = request
            if not isinstance(request, kind) or known.quant_scheme != scheme:
                return Declined(f"{cls.__name__} serves {scheme} only")
            lie = {"scale_layout": known.block_scale_layout} if leaf is MXFP8Leaf else {}
            return cls(**known.keywords(), **lie)

        MUTANTS.append(Mutant(cls.__name__, law, source, build))
        return cls

    return register


def _bytes(buffer: Tensor) -> Tensor:
    return buffer.view(torch.uint8)


@blocks("scales.bytes")
class BiasesTheExponentBy128(MXFP8Leaf):
    def _encode(self, *arguments: Any) -> BlockRows:
        right = super()._encode(*arguments).quantised()
        return Quantised(right.elements, right.scales + 1)


@blocks("scales.bytes")
class RoundsTiesUp(FP4Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        exact = rows.float()
        largest = exact.abs().amax(-1, keepdim=True)
        nudged = (exact * (1 + 2.0**-20)).clamp(-largest, largest)
        return super()._encode(local, side, nudged, scale)


@blocks("scales.bytes")
class RoundsScalesDown(NVFP4Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        return super()._encode(local, side, rows.float() * 0.97, scale)


@blocks("leaf.write-read")
class SwapsNibbles(FP4Leaf):
    def _encode(self, *arguments: Any) -> BlockRows:
        right = super()._encode(*arguments).quantised()
        return Quantised(right.elements << 4 | right.elements >> 4, right.scales)


@blocks("leaf.write-read")
class SwapsNibblesOfLatents(MLAFP4Leaf):
    def _store(self, local: int, loc: Tensor, rows: Tensor) -> None:
        swapped = rows.view(*rows.shape[:-1], -1, 2).flip(-1).flatten(-2)
        super()._store(local, loc, swapped)


@blocks("leaf.slot-zero")
class ScalesSlotZero(MXFP8Leaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        super().set_kv_buffer(layer, loc_info, *rows, **named)
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        local = self._layers.local(layer.layer_id)
        if bool((loc == 0).any()):
            _bytes(self.k_scale_buffer[local]).view(-1)[0] = 255


class _CastsUnclamped(MXFP8Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        right = super()._encode(local, side, rows, scale).quantised()
        if rows.dtype == self.dtype:
            return right
        powers = 2.0 ** (right.scales.float() - 127).repeat_interleave(32, -1)
        beyond = (rows.float() / powers).abs() > 448
        return Quantised(torch.where(beyond, 0x7F, right.elements), right.scales)


@blocks("scales.saturates", source="alibaba/rtp-llm#1256")
class StoresInfinityAsNaN(_CastsUnclamped):
    pass


@blocks("scales.given", source="alibaba/rtp-llm#1256")
class CastsGivenRowsUnclamped(_CastsUnclamped):
    pass


@blocks("scales.given")
class TakesScalesOfItsOwn(MXFP8Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        return Quantised(*quantise_mxfp8(rows))


@blocks("scales.given-refused")
class ReadsNumbersAsScales(MXFP8Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        own = scale if isinstance(scale, Tensor) else None
        return super()._encode(local, side, rows.to(torch.bfloat16) if own is None else rows, own)


@blocks("scales.nan")
class StoresNaNAsZero(FP4Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        return super()._encode(local, side, rows.nan_to_num(), scale)


@blocks("scales.tensor")
class IgnoresTheTensorScale(FP4Leaf):
    def _encode(self, local: int, side: Any, rows: Tensor, scale: Any) -> BlockRows:
        return super()._encode(local, side, rows, None)


class _PlainAtoms(InterleavedScales):
    """Token `t` at `[t // 32, t % 32]`: the two digits in the other order."""

    def store(self, buffer: Tensor, loc: Tensor, scales: Tensor) -> None:
        super().store(buffer, self._swapped(loc), scales)

    def gather(self, buffer: Tensor, loc: Tensor) -> Tensor:
        return super().gather(buffer, self._swapped(loc))

    def _swapped(self, loc: Tensor) -> Tensor:
        chunks = self.page_size // 32
        page, token = loc // self.page_size, loc % self.page_size
        other = token % chunks * 32 + token // chunks
        return torch.where(loc > 0, page * self.page_size + other, loc)


@blocks("leaf.write-read")
class InterleavesTheOtherWay(MXFP8Leaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.mxfp8_sf_interleaved:
            self._k_scales, self._v_scales = (
                _PlainAtoms(self.head_num, width // 32, self.page_size)
                for width in (self.head_dim, self.v_head_dim)
            )

    def _encode(self, *arguments: Any) -> BlockRows:
        return super()._encode(*arguments).quantised()


@blocks("scales.door")
class ShowsScalesByToken(MXFP8Leaf):
    """Keeps scales by token, and shows them under the shape of the other layout."""

    def __init__(self, *args: Any, scale_layout: Any, **kwargs: Any) -> None:
        kwargs |= {"scale_layout": "token_rows"}
        super().__init__(*args, **kwargs)
        self._asked = scale_layout

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        k, v = super().get_kv_scale_buffer(layer_id)
        return k.flip(1).contiguous(), v


@blocks("scales.waits")
class ShowsScalesUnfenced(MXFP8Leaf):
    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        local = self._layers.local(layer_id)
        return self.k_scale_buffer[local], self.v_scale_buffer[local]


@blocks("move.overlap")
class LeavesScalesBehind(MXFP8Leaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        kept = [_bytes(b).clone() for b in (*self.k_scale_buffer, *self.v_scale_buffer)]
        super().move_kv_cache(tgt_loc, src_loc)
        for buffer, was in zip((*self.k_scale_buffer, *self.v_scale_buffer), kept, strict=True):
            _bytes(buffer).copy_(was)


@blocks("host-copy.round-trip", source="sgl-project/sglang#36121")
class CopiesElementsOnly(FP4Leaf):
    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *rest: Any, **named: Any) -> None:
        kept = [_bytes(b).clone() for b in (*self.k_scale_buffer, *self.v_scale_buffer)]
        super().load_cpu_copy(kv_cache_cpu, indices)
        for buffer, was in zip((*self.k_scale_buffer, *self.v_scale_buffer), kept, strict=True):
            _bytes(buffer).copy_(was)


@blocks("transfer.complete")
class ExportsNoScales(NVFP4Leaf):
    def get_kv_scale_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return [], [], []


@blocks("transfer.complete")
class ExportsNoScalesOfLatents(MLAFP4Leaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers[: self.layer_num], lengths[: self.layer_num], items[: self.layer_num]


@blocks("size.bytes", source="sgl-project/sglang#5161")
class CountsNoScales(FP4Leaf):
    def get_kv_size_bytes(self) -> tuple[int, int]:
        return sum(b.nbytes for b in self.k_buffer), sum(b.nbytes for b in self.v_buffer)


@blocks("memory-saver.resume")
class RestoresElementsOnly(MXFP8Leaf):
    def restore_reserved(self) -> None:
        for buffer in self._scales():
            buffer[1].view(-1)[:1].fill_(255)
        for rows in self._row_buffers():
            rows[0].zero_()


class _NamesBytes(FourBitLeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(r, fields=tuple(replace(f, element="uint8") for f in r.fields))
            for r in super().buffer_regions()
        )


class NamesBytesMX(_NamesBytes, FP4Leaf):
    pass


class NamesBytesNV(_NamesBytes, NVFP4Leaf):
    pass


def names_bytes(request: Any) -> Any:
    """Both styles of scales are declared as bytes: their peers cannot tell them apart."""
    match request:
        case MHALeafRequest(quant_scheme="fp4_mx16"):
            return NamesBytesMX(**request.keywords())
        case MHALeafRequest(quant_scheme="nvfp4"):
            return NamesBytesNV(**request.keywords())
        case _:
            return Declined("four bits only")


MUTANTS.append(Mutant("NamesBytes", "transfer.fingerprint", "", names_bytes))


@blocks("oracle.blocks")
class DeclaresScalesOfTheOtherLayer(NVFP4Leaf):
    def _scale_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(replace(r, bases=r.bases[::-1]) for r in super()._scale_regions())


@composite("composite.scales")
class ShowsScalesOfTheFirstLayer(CompositePool):
    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        pool: Any = super()
        return pool.get_kv_scale_buffer(self.layer_ids[0])  # type: ignore[no-any-return]


@composite("composite.scales")
class ListsScalesSideAfterSide(CompositePool):
    @property
    def k_scale_buffer(self) -> list[Tensor]:
        leaves: list[Any] = [side.leaf for side in self._sides]
        return [scales for leaf in leaves for scales in leaf.k_scale_buffer]


@composite("composite.capabilities")
class ForwardsScalesOfSomeLeaves(CompositePool):
    k_scale_buffer: tuple[Tensor, ...] = ()
    v_scale_buffer: tuple[Tensor, ...] = ()

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        leaf, leaf_id = self.leaf_for(layer_id)
        scaled: Any = leaf
        return scaled.get_kv_scale_buffer(leaf_id)  # type: ignore[no-any-return]

    def get_kv_scale_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return [], [], []
