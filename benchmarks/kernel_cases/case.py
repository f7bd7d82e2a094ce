"""A kernel on one shape: what it is launched for, what it must equal, what it must move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from benchmarks.kernel_cases.rows import Moved
from kvproto.kernels.triton.launch import Launch

__all__ = ["Case", "Inputs", "Place", "tensors_of"]

Inputs = tuple[Any, ...]
"""The arguments of an operation, outputs included: tensors, and sequences of them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where inputs are made, and how many tokens of how large a pool.

    On `meta` nothing is allocated. Random elsewhere, the same for the same seed. `padding`:
    some locations are 0 or below.
    """

    device: str
    tokens: int
    slots: int
    seed: int = 0
    padding: bool = True
    _random: torch.Generator = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        generator = torch.Generator("cpu" if self.device == "meta" else self.device)
        object.__setattr__(self, "_random", generator.manual_seed(self.seed))

    def pool(self, *row: int, dtype: torch.dtype) -> Tensor:
        """`[slots, *row]`, the reserved slot zero."""
        rows = self._filled((self.slots, *row), dtype)
        rows[0].zero_()
        return rows

    def rows(self, *row: int, dtype: torch.dtype) -> Tensor:
        """`[tokens, *row]`."""
        return self._filled((self.tokens, *row), dtype)

    def whole(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """`shape`, which does not follow from tokens and slots."""
        return self._filled(shape, dtype)

    def locations(self, dtype: torch.dtype = torch.int64) -> Tensor:
        """`[tokens]`, distinct but for padding, in no order."""
        if self.device == "meta":
            return torch.empty(self.tokens, dtype=dtype, device="meta")
        loc = 1 + torch.randperm(self.slots - 1, generator=self._random, device=self.device)
        loc = loc[: self.tokens].to(dtype)
        if self.padding:
            loc[3::7] = 0
            loc[5::7] = -1
        return loc

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        made = torch.empty(shape, dtype=dtype, device=self.device)
        if self.device != "meta":
            if dtype.is_floating_point:
                made.normal_(generator=self._random)
            else:
                made.random_(generator=self._random)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operation on the shape of one model.

    `inputs` makes arguments, `plan` the launches of the kernel for them; `call` is the operation's
    public function with the same arguments, which does the same by its twin or in host memory.
    `moves` is how many bytes the operation has to read and write, from the shapes, if no row is
    padding; a kernel touches at most `at_most` times as many, and `again` of them on top, which is
    what does not grow as `moves` does. `plain` does as much of it as an
    `index_put_` or `index_select` can.
    """

    operation: str
    shape: str
    inputs: Callable[[Place], Inputs]
    plan: Callable[..., Iterable[Launch]]
    call: Callable[..., object]
    moves: Callable[..., int]
    rows: Callable[..., Moved | Sequence[Moved]] | None = None
    """What it reads and writes whole rows of, or each of its launches where those differ; None for
    one that computes numbers one by one."""
    plain: Callable[..., object] | None = None
    at_most: float = 1.0
    again: Callable[..., int] | None = None
    tokens: tuple[int, ...] = (64, 8192)
    """Batches that kernels are compiled for differently."""
    bulk: int = 0
    """The batch that is timed on a GPU; 0: as many tokens as move 256 MiB."""
    goal: float = 0.0
    """The share of a large copy's bandwidth that is demanded there."""
    why: str = ""
    """Why `at_most` is more than 1, or there is `again`."""
    interpret: bool = True
    """False where interpreting takes seconds and would show what another shape shows."""

    def allowed(self, inputs: Inputs) -> float:
        """How many bytes a kernel may touch for these inputs."""
        again = 0 if self.again is None else self.again(*inputs)
        return self.at_most * self.moves(*inputs) + again

    def widest(self, inputs: Inputs, launch: int) -> tuple[int, int] | None:
        """Bytes of the widest load and store that memory allows in its `launch`th launch."""
        if self.rows is None:
            return None
        rows = self.rows(*inputs)
        return (rows if isinstance(rows, Moved) else rows[launch - 1]).widest

    @property
    def name(self) -> str:
        """The operation and the shape."""
        return f"{self.operation}: {self.shape}"


def tensors_of(inputs: Sequence[Any]) -> Iterator[Tensor]:
    """Every tensor of some inputs, in order."""
    for each in inputs:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, tuple | list):
            yield from tensors_of(cast("Sequence[Any]", each))
