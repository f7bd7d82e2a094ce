"""What a captured graph cannot hold is refused, although the kit's tensors are in host memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from kvproto.conformance.broken import LawBroken
from kvproto.conformance.laws.sync_free import run_traced

LOC = torch.tensor([2, 1, 2])

WAITS: dict[str, Callable[[], object]] = {
    "tolist": LOC.tolist,
    "numpy": LOC.numpy,
    "__array__": lambda: np.asarray(LOC),
    "__bool__": lambda: bool(LOC[0]),
    "__int__": lambda: int(LOC[0]),
    "__float__": lambda: float(LOC[0]),
    "__index__": lambda: [0, 1, 2][LOC[0]],
    "item": LOC[0].item,
    "aten::equal": lambda: torch.equal(LOC, LOC.clone()),
    "aten::allclose": lambda: torch.allclose(LOC.float(), LOC.float()),
    "aten::repeat_interleave": lambda: torch.repeat_interleave(LOC, LOC),
    "aten::bincount": lambda: torch.bincount(LOC),
    "aten::_unique2": lambda: torch.unique(LOC),
    "aten::nonzero": lambda: torch.where(LOC > 1),
    "aten::index with a boolean mask": lambda: LOC[LOC > 1],
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_for_the_data_is_named(name: str) -> None:
    with pytest.raises(LawBroken) as broken:
        run_traced("the call", WAITS[name])
    assert name in broken.value.got


def _in_fixed_shapes() -> Tensor:
    rows = torch.repeat_interleave(LOC, 2)
    rows = torch.repeat_interleave(rows, torch.full((6,), 2), output_size=12)
    return torch.where(rows > 1, rows, rows.new_zeros(())).index_fill_(0, LOC, 0)


def test_fixed_shapes_are_allowed_and_nothing_stays_refused() -> None:
    run_traced("the call", _in_fixed_shapes)
    assert LOC.tolist() == [2, 1, 2]
