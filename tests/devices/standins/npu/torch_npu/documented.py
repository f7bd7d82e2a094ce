"""How an operator refuses: in one line that says what the vendor documents."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Arguments"]


class Arguments:
    """The tensors of one call, by the names of the schema; each check raises `RuntimeError`."""

    def __init__(self, operator: str, **tensors: Tensor | None) -> None:
        self.operator = operator
        self.tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        places = {str(tensor.device) for tensor in self.tensors.values()}
        self.demand(len(places) == 1, "arguments", " and ".join(sorted(places)), "one device")

    def demand(self, kept: bool, argument: str, found: object, documented: object) -> None:
        if not kept:
            raise RuntimeError(f"{self.operator}: {argument} is {found}; documented: {documented}")

    def dtypes(self, names: Sequence[str], allowed: Sequence[torch.dtype]) -> None:
        """All of one dtype, and that one of these."""
        first = self.tensors[names[0]].dtype
        for name in names:
            dtype = self.tensors[name].dtype
            self.demand(dtype in allowed, name, dtype, ", ".join(map(str, allowed)))
            self.demand(dtype == first, name, dtype, f"the dtype of {names[0]}, {first}")

    def ranks(self, **allowed: int | range) -> None:
        for name, rank in allowed.items():
            found = self.tensors[name].dim()
            kept = found in rank if isinstance(rank, range) else found == rank
            documented = f"{rank.start} to {rank.stop - 1}" if isinstance(rank, range) else rank
            self.demand(kept, name, f"of rank {found}", f"rank {documented}")

    def shape(self, name: str, expected: Sequence[int], why: str) -> None:
        found = tuple(self.tensors[name].shape)
        self.demand(found == tuple(expected), name, found, f"{tuple(expected)}, {why}")

    def contiguous(self, *names: str) -> None:
        for name in names:
            kept = self.tensors[name].is_contiguous()
            self.demand(kept, name, "not contiguous", "contiguous tensors only")

    def filled(self, *names: str) -> None:
        for name in names:
            self.demand(self.tensors[name].numel() > 0, name, "empty", "no empty tensors")

    def within(self, name: str, values: Tensor, low: int | None, high: int) -> None:
        """Every value in `low .. high - 1`; `low` None for no lower bound."""
        if not values.numel():
            return
        least, most = int(values.min()), int(values.max())
        kept = (low is None or least >= low) and most < high
        bound = f"below {high}" if low is None else f"{low} to {high - 1}"
        self.demand(kept, name, f"{least} to {most}", f"values {bound}")
