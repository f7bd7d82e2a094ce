"""What follows from the locations is worked out once, and rows are not made dense for nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.kernels import to_stored
from kvproto.reference import KeyOnlyLeaf, MLAFP4Leaf
from tests.reference.block_scaled import LATENT, LAYER, mxfp8, put


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """How often each operation runs, as on a device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # Rows may be compared too; of one dimension are the locations.
        if args and isinstance(args[0], torch.Tensor) and args[0].dim() == 1:
            self.calls["loc." + func.overloadpacket.__name__] += 1
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_locations_are_compared_once_for_keys_and_values() -> None:
    """And for their scales, which lie in rows of tokens too."""
    leaf = mxfp8()
    with Counting() as seen:
        put(leaf, [1, 2])
    assert seen.calls["loc.gt"] == 1


def test_locations_are_compared_once_for_a_row_and_its_scales() -> None:
    leaf, loc = MLAFP4Leaf(**LATENT), torch.tensor([1, 2])
    with Counting() as seen:
        leaf.set_kv_buffer(LAYER, loc, torch.ones(2, 1, 48, dtype=torch.bfloat16), None)
    assert seen.calls["loc.gt"] == 1


def test_locations_of_keys_are_checked_once() -> None:
    leaf = KeyOnlyLeaf(8, 4, torch.bfloat16, 1, 4, 1, "cpu")
    with Counting() as seen:
        leaf.set_k_buffer(0, torch.tensor([1, 2]), torch.ones(2, 1, 4, dtype=torch.bfloat16))
    assert seen.calls["loc.lt"] == 1


def test_strided_rows_are_cast_where_they_lie() -> None:
    rows = torch.ones(4, 2, 8, dtype=torch.bfloat16)[::2]
    with Counting() as seen:
        to_stored(rows, torch.float8_e4m3fn)
    assert not seen.calls["clone"]
