"""Which window slot of a draft goes with a location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvproto.protocols import KVPool, SWAComposite, require

from .build_error import BuildError

if TYPE_CHECKING:
    from torch import Tensor

    from .pool_plan import DraftWindows

__all__ = ["bind_windows"]


def bind_windows(draft: KVPool, pool: KVPool | None, windows: DraftWindows) -> None:
    """Give a draft's window pair its table: the model's own, or each location its own number.

    To be called once the allocator has registered its table with the model's pool.

    :raises BuildError: for a model's pool that has no table to share.
    """
    if windows == "none":
        return
    pair = require(draft, SWAComposite, for_="a draft with windowed layers")
    if windows == "own":
        pair.register_mapping(_identity(pair))
        return
    shared = require(pool, SWAComposite, for_="a draft in the model's window slots")
    if shared.full_to_swa_index_mapping is None:
        raise BuildError(
            "the draft shares the model's window slots, and the allocator gave the pool no table"
        )
    pair.register_mapping(shared.full_to_swa_index_mapping)


def _identity(pair: SWAComposite) -> Tensor:
    """A table of every full location, and one entry more that sends -1 to -1."""
    import torch

    full = pair.full_kv_pool
    table = torch.arange(full.size + full.page_size + 1, device=full.device)
    table[-1] = -1
    return table
