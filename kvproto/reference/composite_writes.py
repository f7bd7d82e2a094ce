"""The write door of a composite, with exactly the options that all of its leaves take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from torch import Tensor

from kvproto.kernels.fp8 import Scale
from kvproto.protocols import (
    AttentionLayer,
    DCPMaskedWrite,
    LayerOverrideWrite,
    ScaledWrite,
    WriteLocation,
    supports,
)

from .composite_pool import CompositePool
from .sides import LeafLayer, Side

__all__ = ["WRITE_DOORS"]

_OPTIONS: tuple[type, ...] = (ScaledWrite, LayerOverrideWrite, DCPMaskedWrite)


class WriteDoor(CompositePool):
    """Base of the doors with options. A door takes what its signature says, so each is a class.

    A layer's global id becomes its leaf's own, locations become those of the leaf's space; masks
    and scales go along as they are.
    """

    options: ClassVar[tuple[type, ...]] = ()

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Are these the options that every leaf takes?"""
        taken = (o for o in _OPTIONS if all(supports(side.leaf, o) for side in sides))
        return cls.options == tuple(taken)

    def _target(self, layer: AttentionLayer | None, override: int | None) -> LeafLayer:
        if override is not None:
            return self._place(override)
        if layer is None:
            raise ValueError("set_kv_buffer: layer is None and layer_id_override was not given")
        return self._place(layer.layer_id)


class _Scaled(WriteDoor):
    label = "ScaledWrite"
    options = (ScaledWrite,)

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: Scale = None,
        v_scale: Scale = None,
    ) -> None:
        """Store a row per location, scaled as the leaf does it."""
        place = self._place(layer.layer_id)
        loc = self._locations(place, loc_info)
        leaf = cast("ScaledWrite", place.leaf)
        leaf.set_kv_buffer(place, loc, cache_k, cache_v, k_scale, v_scale)


class _Overridden(WriteDoor):
    label = "LayerOverrideWrite"
    options = (LayerOverrideWrite,)

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Store a row per location, in the layer that the override names."""
        place = self._target(layer, layer_id_override)
        loc = self._locations(place, loc_info)
        place.leaf.set_kv_buffer(place, loc, cache_k, cache_v)


class _ScaledOverridden(WriteDoor):
    label = "ScaledWrite, LayerOverrideWrite"
    options = (
        ScaledWrite,
        LayerOverrideWrite,
    )

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: Scale = None,
        v_scale: Scale = None,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Store scaled rows, in the layer that the override names."""
        place = self._target(layer, layer_id_override)
        loc = self._locations(place, loc_info)
        leaf = cast("ScaledWrite", place.leaf)
        leaf.set_kv_buffer(place, loc, cache_k, cache_v, k_scale, v_scale)


class _Masked(WriteDoor):
    label = "DCPMaskedWrite"
    options = (DCPMaskedWrite,)

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        *,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        """Store a row per location, where the mask is True."""
        place = self._place(layer.layer_id)
        loc = self._locations(place, loc_info)
        leaf = cast("DCPMaskedWrite", place.leaf)
        leaf.set_kv_buffer(place, loc, cache_k, cache_v, dcp_kv_mask=dcp_kv_mask)


class _ScaledMasked(WriteDoor):
    label = "ScaledWrite, DCPMaskedWrite"
    options = (
        ScaledWrite,
        DCPMaskedWrite,
    )

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: Scale = None,
        v_scale: Scale = None,
        *,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        """Store a row per location, scaled as the leaf does it, where the mask is True."""
        place = self._place(layer.layer_id)
        loc = self._locations(place, loc_info)
        write = cast("Any", place.leaf)
        write.set_kv_buffer(place, loc, cache_k, cache_v, k_scale, v_scale, dcp_kv_mask=dcp_kv_mask)


class _OverriddenMasked(WriteDoor):
    label = "LayerOverrideWrite, DCPMaskedWrite"
    options = (
        LayerOverrideWrite,
        DCPMaskedWrite,
    )

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        *,
        layer_id_override: int | None = None,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        """Store rows where the mask is True, in the layer that the override names."""
        place = self._target(layer, layer_id_override)
        loc = self._locations(place, loc_info)
        leaf = cast("DCPMaskedWrite", place.leaf)
        leaf.set_kv_buffer(place, loc, cache_k, cache_v, dcp_kv_mask=dcp_kv_mask)


class _ScaledOverriddenMasked(WriteDoor):
    label = "ScaledWrite, LayerOverrideWrite, DCPMaskedWrite"
    options = (
        ScaledWrite,
        LayerOverrideWrite,
        DCPMaskedWrite,
    )

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: Scale = None,
        v_scale: Scale = None,
        *,
        layer_id_override: int | None = None,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        """Store scaled rows where the mask is True, in the layer that the override names."""
        place = self._target(layer, layer_id_override)
        loc = self._locations(place, loc_info)
        write = cast("Any", place.leaf)
        write.set_kv_buffer(place, loc, cache_k, cache_v, k_scale, v_scale, dcp_kv_mask=dcp_kv_mask)


WRITE_DOORS = (
    _Scaled,
    _Overridden,
    _ScaledOverridden,
    _Masked,
    _ScaledMasked,
    _OverriddenMasked,
    _ScaledOverriddenMasked,
)
"""One fits any leaves; where none of them takes an option, the door of `CompositePool` does."""
