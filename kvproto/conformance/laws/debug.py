"""Pools under debug mode: checked on every call, and otherwise the same."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from kvproto.debug import ContractViolation, validate
from kvproto.protocols import KVPool

from ..kv_bench import KVBench
from ..law import has_layers, law
from .leaf import OWNED, read_doors, write_read


def _can_be_checked(request: Any) -> bool:
    return has_layers(request) and importlib.util.find_spec("beartype") is not None


@law(
    "debug.validate",
    KVPool,
    applies=_can_be_checked,
    needs=(*OWNED, "leaf.write-read", "leaf.read-doors"),
    check="ask isinstance, never `type(self) is`: a validated pool is of a generated subclass",
)
def validated(bench: KVBench) -> None:
    """A pool whose calls are checked keeps the laws it kept before, and refuses a wrong call."""
    validate(bench.pool)
    write_read(bench)
    read_doors(bench)
    k, v = bench.pair(2)
    bench.expect_raises(
        "set_kv_buffer(loc of shape (1, 2), ...) on a validated pool",
        lambda: bench.write(torch.tensor([[1, 2]]), k, v),
        ContractViolation,
    )
