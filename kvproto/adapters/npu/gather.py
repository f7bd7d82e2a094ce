"""Rows of whole sequences out of their pages, one sequence after another."""

from __future__ import annotations

import torch
from torch import Tensor

from .facts import DEVICE_TYPE
from .operators import BY_SLOT, signed
from .planes import PlaneLayer

__all__ = ["gather_sequences"]


def gather_sequences(
    keys: PlaneLayer, values: PlaneLayer, block_tables: Tensor, seq_lens: Tensor, seq_len_sum: int
) -> tuple[Tensor, Tensor]:
    """`[seq_len_sum, heads, width]` of both planes, as stored; fresh.

    `block_tables` is `[sequences, pages]` of pages, its tail past a sequence's length is not read,
    and `seq_lens` `[sequences]` counts tokens; both int32 or int64. `seq_len_sum` is the lengths'
    sum, known to the host. Planes are in ND order. On an Ascend device one operator gathers both,
    but for float32, which it does not take.
    """
    on_device = keys.cache.device.type == DEVICE_TYPE
    if on_device and signed(keys.cache).dtype in BY_SLOT and seq_len_sum:
        return _by_operator(keys.cache, values.cache, block_tables, seq_lens, seq_len_sum)
    slots = _slots(block_tables, seq_lens, keys.cache.shape[1], seq_len_sum)
    return keys.store.gather(slots), values.store.gather(slots)


def _by_operator(
    keys: Tensor, values: Tensor, block_tables: Tensor, seq_lens: Tensor, seq_len_sum: int
) -> tuple[Tensor, Tensor]:
    k_rows, v_rows = (each.new_empty((seq_len_sum, *each.shape[2:])) for each in (keys, values))
    # Entries past a length may be anything, and the operator wants blocks that there are.
    tables = block_tables.clamp(0, keys.shape[0] - 1).to(torch.int32)
    torch.ops.npu.npu_gather_pa_kv_cache(
        signed(keys),
        signed(values),
        tables.contiguous(),
        seq_lens.to(torch.int32).contiguous(),
        signed(k_rows),
        signed(v_rows),
    )
    return k_rows, v_rows


def _slots(block_tables: Tensor, seq_lens: Tensor, page_size: int, total: int) -> Tensor:
    """The token slots of every sequence, in order; without a host sync."""
    counts = seq_lens.to(torch.int64)
    requests = torch.arange(counts.shape[0], device=counts.device)
    of = torch.repeat_interleave(requests, counts, output_size=total)
    first = torch.cumsum(counts, 0) - counts
    tokens = torch.arange(total, device=counts.device) - first.index_select(0, of)
    pages = block_tables.to(torch.int64)[of, tokens.div(page_size, rounding_mode="floor")]
    return pages * page_size + tokens.remainder(page_size)
