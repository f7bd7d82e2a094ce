"""Recurrent state: Mamba, gated delta nets and their kin keep one slot per request."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.kernels import check_locations, clear_slots, copy_slots, prepare_slot_copies
from kvproto.protocols import BufferRegion, buf_infos

from .host_state import HostState, check_state, copy_state_to_host, load_state_from_host
from .memory_saver import kv_cache_region
from .state_layout import (
    StateEntry,
    check_slice_axis,
    check_state_dtypes,
    state_entries,
    state_region,
)
from .state_tensors import RecurrentState, SpeculativeState, StateShapes

__all__ = ["RecurrentStatePool"]

_GIB = 1 << 30


class RecurrentStatePool:
    """State tensors of `[layers, size + 1, ...]`, one per convolution and a temporal one.

    Slot 0 is reserved on top of `size` and stays zero. A slot that is handed out again holds
    what its last owner left: whoever allocates it clears it (`clear_slots`) before use, as
    `StateSlotAllocator` says.

    `conv_slice_axis` is the axis of a convolution's shape that tensor parallelism splits, None
    for one that every rank has whole; `conv_shard_groups` its unsplit block lengths where the
    blocks are split one by one. The first axis of the temporal state is the split one. With
    `speculative_num_draft_tokens` there is scratch for that many tokens of `spec_state_size`
    requests (None: as many as slots). It belongs to request rows: clearing, copies and transfers
    leave it out.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    device: torch.device
    mamba_cache: RecurrentState
    mamba_layer_ids: list[int]

    def __init__(
        self,
        *,
        size: int,
        mamba_layer_ids: Sequence[int],
        conv_state_shape: Sequence[Sequence[int]],
        temporal_state_shape: Sequence[int],
        conv_dtype: torch.dtype,
        ssm_dtype: torch.dtype,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        speculative_num_draft_tokens: int | None = None,
        spec_state_size: int | None = None,
        conv_slice_axis: int | None = 0,
        conv_shard_groups: Sequence[int] | None = None,
    ) -> None:
        _check_counts(size, mamba_layer_ids, speculative_num_draft_tokens, spec_state_size)
        check_state_dtypes(conv_dtype, ssm_dtype)
        self.shapes = StateShapes(
            tuple(tuple(shape) for shape in conv_state_shape),
            tuple(temporal_state_shape),
            conv_dtype,
            ssm_dtype,
        )
        check_slice_axis(conv_slice_axis, self.shapes.conv)
        self.size, self.device = size, torch.device(device)
        self.mamba_layer_ids = list(mamba_layer_ids)
        self.conv_slice_axis = conv_slice_axis
        self.conv_shard_groups = None if conv_shard_groups is None else list(conv_shard_groups)
        with kv_cache_region(enable_memory_saver):
            self.mamba_cache = self._allocate(speculative_num_draft_tokens, spec_state_size)
        for tensor in self.mamba_cache.persistent():
            prepare_slot_copies(tensor)

    def _allocate(self, draft_tokens: int | None, spec_state_size: int | None) -> RecurrentState:
        layers = len(self.mamba_layer_ids)
        conv, temporal = self.shapes.allocate(layers, self.size + 1, device=self.device)
        if draft_tokens is None:
            return RecurrentState(conv=conv, temporal=temporal)
        rows = (self.size if spec_state_size is None else spec_state_size) + 1
        windows, states = self.shapes.allocate(layers, rows, draft_tokens, device=self.device)
        return SpeculativeState(
            conv=conv,
            temporal=temporal,
            intermediate_ssm=states,
            intermediate_conv_window=windows,
        )

    @property
    def num_mamba_layers(self) -> int:
        """Layers owned."""
        return len(self.mamba_layer_ids)

    def mamba2_layer_cache(self, layer_id: int, /) -> RecurrentState:
        """The state of one layer, by its position in `mamba_layer_ids`; aliases.

        :raises ValueError: for a position that is not there; nothing wraps.
        """
        if not 0 <= layer_id < self.num_mamba_layers:
            raise ValueError(
                f"layer_id={layer_id} is a position among the {self.num_mamba_layers} recurrent "
                f"layers {self.mamba_layer_ids}, not a global id; it must be in "
                f"0..{self.num_mamba_layers - 1}"
            )
        return self.mamba_cache.at_layer(layer_id)

    def clear_slots(self, indices: Tensor, /) -> None:
        """Zero every tensor of every layer at `[n]` slots; fixed-shape.

        :raises IndexError: on CPU, for a slot that is not there; nothing is cleared.
        """
        check_locations(indices, self.size + 1)
        for tensor in self.mamba_cache.persistent():
            clear_slots(tensor, indices)

    def copy_from(self, src_indices: Tensor, dst_indices: Tensor, /) -> None:
        """Copy every tensor from slot to slot in every layer; the two sets may overlap.

        Targets of 0 and below are dropped.

        :raises IndexError: on CPU, for a slot that is not there; nothing is copied.
        """
        for slots in (src_indices, dst_indices):
            check_locations(slots, self.size + 1)
        for tensor in self.mamba_cache.persistent():
            copy_slots(tensor, src_indices, dst_indices)

    def get_cpu_copy(self, indices: Tensor, /) -> HostState:
        """The state at `[n]` slots on the host; bit-exact."""
        check_locations(indices, self.size + 1)
        return copy_state_to_host(self.mamba_cache.persistent(), indices)

    def load_cpu_copy(self, mamba_cache_cpu: HostState, indices: Tensor, /) -> None:
        """Write a copy back to as many slots; the reserved one is left alone.

        :raises ValueError: for a copy of other slots or tensors; nothing is written.
        """
        self.check_cpu_copy(mamba_cache_cpu, indices)
        load_state_from_host(self.mamba_cache.persistent(), mamba_cache_cpu, indices)

    def check_cpu_copy(
        self, mamba_cache_cpu: HostState, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises; state is by slot, not by request row."""
        check_locations(indices, self.size + 1)
        check_state(self.mamba_cache.persistent(), mamba_cache_cpu, indices)

    def restore_reserved(self) -> None:
        """Zero the reserved slot of every tensor, after a memory saver resumed them."""
        for tensor in self.mamba_cache.persistent():
            tensor[:, 0].zero_()

    def _entries(self) -> list[StateEntry]:
        return state_entries(
            self.mamba_cache, self.mamba_layer_ids, self.conv_slice_axis, self.conv_shard_groups
        )

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """One region per tensor; a page is one slot. Scratch is not in here."""
        layers = tuple(self.mamba_layer_ids)
        tensors = [t for t in self.mamba_cache.persistent() if t.numel()]
        return tuple(state_region(tensor, layers) for tensor in tensors)

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """Tensor by tensor, layer by layer; an item is one slot. Empty tensors are left out."""
        return buf_infos(self.buffer_regions())

    def get_state_layer_ids(self) -> list[int]:
        """The global layer id of each entry."""
        return [entry.layer_id for entry in self._entries()]

    def get_state_dim_per_tensor(self) -> list[int]:
        """Length of the split axis of each entry; 0 where every rank has it whole."""
        return [entry.split_length for entry in self._entries()]

    def get_state_slice_outer_counts(self) -> list[int]:
        """Rows before the split axis of each entry."""
        return [entry.outer_count for entry in self._entries()]

    def get_state_conv_shard_groups(self) -> list[list[int] | None]:
        """Unsplit block lengths of each convolution's entry, None where it is one block."""
        return [entry.shard_groups for entry in self._entries()]

    def get_kv_size_bytes(self) -> int:
        """Bytes of all tensors, scratch and the reserved slot included."""
        return sum(tensor.nbytes for tensor in self.mamba_cache.all_tensors())

    @property
    def mem_usage(self) -> float:
        """GiB of all tensors."""
        return self.get_kv_size_bytes() / _GIB


def _check_counts(
    size: int, layer_ids: Sequence[int], draft_tokens: int | None, spec_state_size: int | None
) -> None:
    for name, value in (
        ("size", size),
        ("speculative_num_draft_tokens", draft_tokens),
        ("spec_state_size", spec_state_size),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    if len(set(layer_ids)) != len(layer_ids) or any(layer_id < 0 for layer_id in layer_ids):
        raise ValueError(
            f"mamba_layer_ids={list(layer_ids)}: global layer ids, none twice, none negative"
        )
