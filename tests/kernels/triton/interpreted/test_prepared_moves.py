"""Pools whose first move is inside a captured graph, of any number of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.kernels import follow_platform
from kvproto.kernels.triton import pointer_table as tables
from kvproto.kernels.triton.launch import Launch, run
from kvproto.reference.dsa import DSALeaf
from kvproto.reference.fp4 import FP4Leaf
from kvproto.reference.key_only import KeyOnlyLeaf
from kvproto.reference.mha import MHALeaf
from kvproto.reference.mla import MLALeaf
from kvproto.reference.mla_fp4 import MLAFP4Leaf
from kvproto.reference.mxfp8 import MXFP8Leaf
from kvproto.reference.state import RecurrentStatePool

SIZE, LAYERS, BF16, FP8, FP4 = 640, 2, torch.bfloat16, torch.float8_e4m3fn, torch.float4_e2m1fn_x2

LEAVES: dict[str, tuple[Callable[[], Any], int]] = {
    "nhd": (lambda: MHALeaf(SIZE, 16, BF16, 1, 16, LAYERS, "cpu", v_head_dim=32), 2),
    "hnd": (lambda: MHALeaf(SIZE, 16, BF16, 1, 16, LAYERS, "cpu", kv_cache_layout="hnd"), 1),
    "5-D": (
        lambda: MHALeaf(SIZE, 16, BF16, 1, 16, LAYERS, "cpu", kv_cache_layout="vectorized_5d"),
        2,
    ),
    "latent": (lambda: MLALeaf(SIZE, 16, BF16, 16, 8, LAYERS, "cpu"), 1),
    "sparse latent": (lambda: DSALeaf(SIZE, 64, 16, BF16, 8, LAYERS, "cpu", 128), 3),
    "keys": (lambda: KeyOnlyLeaf(SIZE, 16, BF16, 1, 16, LAYERS, "cpu"), 1),
    "mxfp8": (lambda: MXFP8Leaf(SIZE, 16, FP8, 1, 32, LAYERS, "cpu"), 2),
    "mxfp8 interleaved": (
        lambda: MXFP8Leaf(SIZE, 128, FP8, 1, 64, LAYERS, "cpu", scale_layout="interleaved"),
        2,
    ),
    "fp4": (lambda: FP4Leaf(SIZE, 16, FP4, 1, 32, LAYERS, "cpu"), 2),
    "latent fp4": (lambda: MLAFP4Leaf(SIZE, 16, FP4, 32, 32, LAYERS, "cpu"), 2),
}
"""Each with how many kinds of row it has: each is moved in one launch, or in two."""

pytestmark = pytest.mark.usefixtures("served_on_cpu")


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    ran: list[Launch] = []

    def spy(launch: Launch) -> None:
        ran.append(launch)
        run(launch)

    monkeypatch.setattr("kvproto.kernels.triton.launch.run", spy)
    return ran


def capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_is_capturing", lambda _: True)


def fill(buffers: list[Tensor]) -> None:
    dice = torch.Generator().manual_seed(0)
    for buffer in buffers:
        held = buffer.view(torch.uint8) if buffer.is_contiguous() else buffer
        held.copy_(torch.randint(0, 100, held.shape, generator=dice).to(held.dtype))


def pairs(n: int) -> tuple[Tensor, Tensor]:
    """Half of the sources are targets of others."""
    slots = 1 + torch.randperm(SIZE - 1, generator=torch.Generator().manual_seed(n))
    targets, sources = slots[:n], slots[-n:].clone()
    sources[::2] = targets.flip(0)[::2]
    return targets, sources


def buffers_of(leaf: Any) -> list[Tensor]:
    named = (value for name, value in vars(leaf).items() if name.endswith(("_buffer", "_bytes")))
    return [buffer for each in named for buffer in each]


def held(leaf: Any, loc: Tensor) -> list[Tensor]:
    """What torch operations read."""
    follow_platform("cpu", False)
    copy = leaf.get_cpu_copy(loc)
    follow_platform("cpu", True)
    return [*copy.rows, *(part for parts in copy.index_keys for part in parts)]


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_is_moved_in_a_graph_before_it_ever_was(
    name: str, n: int, launches: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, kinds = LEAVES[name]
    leaf = build()
    fill(buffers_of(leaf))
    targets, sources = pairs(n)
    expected = held(leaf, sources)
    rest = torch.tensor(sorted({*range(1, SIZE)} - {*targets.tolist()}))
    beside = held(leaf, rest)
    capturing(monkeypatch)
    launches.clear()
    leaf.move_kv_cache(targets, sources)
    moves = [each for each in launches if 0 not in each.grid]
    if n <= 256:
        assert len(moves) <= kinds
    else:
        assert len(moves) <= 2 * kinds + 2 * (name == "sparse latent")
    assert all(map(torch.equal, held(leaf, targets), expected))
    assert all(map(torch.equal, held(leaf, rest), beside))


@pytest.mark.parametrize("n", [5, 300])
def test_state_is_copied_in_a_graph_before_it_ever_was(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = RecurrentStatePool(
        size=SIZE,
        mamba_layer_ids=[1, 3],
        conv_state_shape=[(8, 3)],
        temporal_state_shape=(2, 4, 4),
        conv_dtype=BF16,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    tensors = [*pool.mamba_cache.persistent()]
    fill(tensors)
    targets, sources = pairs(n)
    expected = [tensor.clone().index_copy_(1, targets, tensor[:, sources]) for tensor in tensors]
    capturing(monkeypatch)
    pool.copy_from(sources, targets)
    assert all(map(torch.equal, tensors, expected))
