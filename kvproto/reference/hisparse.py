"""Where on the device a token lives, while most live on the host."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import peer_locations

__all__ = ["DeviceLocations"]


class DeviceLocations:
    """The translation of a leaf whose rows are device slots, every token being kept.

    A leaf of that kind inherits it, or holds one: doors translate what they are given, and hand
    the slots on. Here compressed slots are the full ones.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    full_to_hisparse_device_index_mapping: Tensor | None = None

    def register_mapping(self, full_to_hisparse_device_index_mapping: Tensor, /) -> None:
        """Translate by this table from now on; it stays the allocator's to write.

        :raises ValueError: for a table that is no row of integers.
        """
        table = full_to_hisparse_device_index_mapping
        if table.dtype not in (torch.int32, torch.int64) or table.dim() != 1:
            raise ValueError(
                f"the mapping is {table.dtype} of shape {tuple(table.shape)}, must be one row of "
                "int32 or int64"
            )
        self.full_to_hisparse_device_index_mapping = table

    def translate_loc_to_hisparse_device(self, indices: Tensor, /) -> Tensor:
        """Device slots, int64, same shape: 0 where there is none, -1 for negative ones.

        :raises RuntimeError: before `register_mapping`.
        :raises IndexError: on the CPU, for a slot past the table.
        """
        table = self.full_to_hisparse_device_index_mapping
        if table is None:
            raise RuntimeError(
                "no mapping to device slots is registered: the allocator has to call "
                "register_mapping before device slots are used"
            )
        return peer_locations(table, indices)

    def translate_loc_from_full_to_hisparse_device(self, full_indices: Tensor, /) -> Tensor:
        """The same: full slots are compressed ones."""
        return self.translate_loc_to_hisparse_device(full_indices)

    def translate_loc_from_full_to_compressed(self, full_indices: Tensor, /) -> Tensor:
        """The same tensor."""
        return full_indices
