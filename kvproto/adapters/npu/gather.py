"""Rows of whole sequences out of their pages, one sequence after another."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels.on_host import on_host

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
    but for float32, which it does not take. That a page of a sequence is one of the planes' is the
    caller's to keep on a device; what the operator does of another one is the vendor's.

    :raises ValueError: in host memory, for another sum.
    :raises IndexError: in host memory, for a page past the last.
    """
    if on_host(seq_lens) and (total := int(seq_lens.sum())) != seq_len_sum:
        raise ValueError(f"seq_len_sum={seq_len_sum}: seq_lens sum to {total}")
    on_device = keys.cache.device.type == DEVICE_TYPE
    if on_device and signed(keys.cache).dtype in BY_SLOT and seq_len_sum:
        return _by_operator(keys.cache, values.cache, block_tables, seq_lens, seq_len_sum)
    slots = _slots(block_tables, seq_lens, keys.cache.shape[1], seq_len_sum)
    return keys.store.gather(slots), values.store.gather(slots)


def _by_operator(
    keys: Tensor, values: Tensor, block_tables: Tensor, seq_lens: Tensor, seq_len_sum: int
) -> tuple[Tensor, Tensor]:
    k_rows, v_rows = (each.new_empty((seq_len_sum, *each.shape[2:])) for each in (keys, values))
    tables = _read_entries(block_tables, seq_lens, keys.shape[1]).to(torch.int32)
    torch.ops.npu.npu_gather_pa_kv_cache(
        signed(keys),
        signed(values),
        tables.contiguous(),
        seq_lens.to(torch.int32).contiguous(),
        signed(k_rows),
        signed(v_rows),
    )
    return k_rows, v_rows


def _read_entries(block_tables: Tensor, seq_lens: Tensor, page_size: int) -> Tensor:
    """The table, 0 past each length: there may be anything, and the operator wants pages."""
    pages = torch.arange(block_tables.shape[1], device=block_tables.device)
    past = pages * page_size >= seq_lens.view(-1, 1)
    return block_tables.masked_fill(past, 0)


def _slots(block_tables: Tensor, seq_lens: Tensor, page_size: int, total: int) -> Tensor:
    """The token slots of every sequence, in order; without a host sync."""
    counts = seq_lens.to(torch.int64)
    requests = torch.arange(counts.shape[0], device=counts.device)
    of = torch.repeat_interleave(requests, counts, output_size=total)
    first = torch.cumsum(counts, 0) - counts
    tokens = torch.arange(total, device=counts.device) - first.index_select(0, of)
    pages = block_tables.to(torch.int64)[of, tokens.div(page_size, rounding_mode="floor")]
    return pages * page_size + tokens.remainder(page_size)
