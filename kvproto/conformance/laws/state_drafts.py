"""State of draft tokens: scratch of request rows, beside the state of slots."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import StatePool

from ..broken import LawBroken
from ..law import law
from ..state_bench import StateBench, named_tensors
from .state import TENSORS


def _drafting(request: Any) -> bool:
    return bool(request.speculative_num_draft_tokens)


@law(
    "state.drafts",
    StatePool,
    applies=_drafting,
    needs=TENSORS,
    check="allocate spec_state_size + 1 rows of the draft tokens' windows and temporal states",
)
def drafts(bench: StateBench) -> None:
    """Verification has room for each draft token's windows and temporal state, row by row."""
    request = bench.request
    rows = (request.spec_state_size or request.size) + 1
    leading = (bench.layers, rows, request.speculative_num_draft_tokens)
    scratch = bench.scratch()
    wanted = sorted((*leading, *shape) for shape in bench.shapes)
    found = sorted(tuple(t.shape) for t in scratch.values())
    bench.expect("shapes of intermediate_*", expected=wanted, got=found)
    for position in range(bench.layers):
        one = named_tensors(bench.pool.mamba2_layer_cache(position))
        for name, tensor in scratch.items():
            call = f"mamba2_layer_cache({position}).{name}"
            if name not in one or one[name].data_ptr() != tensor[position].data_ptr():
                raise LawBroken(
                    call, expected=f"an alias of layer {position}", got="another tensor"
                )


@law(
    "state.drafts-apart",
    StatePool,
    applies=_drafting,
    needs=("state.drafts",),
    check="clear, copy and restore the tensors of slots only: a slot is no row of the scratch",
)
def drafts_apart(bench: StateBench) -> None:
    """What is done to slots leaves the draft tokens' state alone: a row of it is a request's."""
    for tensor in bench.scratch().values():
        tensor.fill_(7.0)
    every = torch.arange(1, bench.slots)
    bench.pool.clear_slots(every)
    _expect_sevens(bench, "clear_slots of every slot")
    bench.fill(1, 2.0)
    bench.pool.copy_from(torch.tensor([1]), torch.tensor([2]))
    _expect_sevens(bench, "copy_from([1], [2])")
    saved = bench.pool.get_cpu_copy(torch.tensor([1]))
    bench.pool.load_cpu_copy(saved, torch.tensor([2]))
    _expect_sevens(bench, "load_cpu_copy(get_cpu_copy([1]), [2])")


def _expect_sevens(bench: StateBench, call: str) -> None:
    changed = [name for name, tensor in bench.scratch().items() if not _only(tensor, 7.0)]
    bench.expect(f"{call}; scratch that changed", expected=[], got=changed)


def _only(tensor: Tensor, value: float) -> bool:
    return bool((tensor == value).all())
