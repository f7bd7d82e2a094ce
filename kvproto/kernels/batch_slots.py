"""The token slots of the requests of a batch, out of the table that says them."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["batch_slots"]


def batch_slots(req_to_token: Tensor, rows: Tensor, seq_lens: Tensor) -> Tensor:
    """The first `seq_lens[i]` slots of row `rows[i]`, flat, padded with 0; no host sync.

    `req_to_token` is `[rows, tokens]`, the others `[requests]`, integer, on any device. With
    `seq_lens` on the host the table is read as far as the longest sequence, else whole.
    """
    on_host = seq_lens.device.type == "cpu"
    longest = int(seq_lens.max()) if on_host and seq_lens.numel() else req_to_token.shape[1]
    device = req_to_token.device
    slots = req_to_token[:, :longest].index_select(0, rows.to(device=device, dtype=torch.int64))
    inside = torch.arange(slots.shape[1], device=device) < seq_lens.to(device).view(-1, 1)
    return torch.where(inside, slots, 0).flatten()
