"""Which of a batch's draft slots are written, where the device knows how many were accepted."""

from __future__ import annotations

import torch
from torch import Tensor

from .triton_devices import served_by_triton

__all__ = ["prefix_locations"]


def prefix_locations(loc_2d: Tensor, commit_lens: Tensor) -> Tensor:
    """`[requests * drafts]`: the first `commit_lens[r]` slots of each row of `loc_2d`, else 0.

    `loc_2d` is `[requests, drafts]`, int32 or int64, of any strides; `commit_lens` `[requests]`,
    integer. Writers drop 0, so that what was not accepted costs a row of zeros and no branch:
    the shape is known without the lengths. Fresh, in the dtype of `loc_2d`.

    :raises ValueError: for another rank, or another number of lengths than rows.
    """
    if loc_2d.dim() != 2 or commit_lens.shape != loc_2d.shape[:1]:
        raise ValueError(
            f"loc_2d has shape {tuple(loc_2d.shape)} and commit_lens {tuple(commit_lens.shape)}: "
            "must be (requests, drafts) and (requests,); nothing was written"
        )
    if served_by_triton(loc_2d):
        return _launched(loc_2d, commit_lens)
    draft = torch.arange(loc_2d.shape[1], device=loc_2d.device)
    kept = draft < commit_lens.unsqueeze(1)
    return torch.where(kept, loc_2d, torch.zeros_like(loc_2d)).flatten()


def _launched(loc_2d: Tensor, commit_lens: Tensor) -> Tensor:
    from .triton.launch import run
    from .triton.locations import plan_prefix_locations

    found = loc_2d.new_empty(loc_2d.numel())
    run(plan_prefix_locations(loc_2d, commit_lens, found))
    return found
