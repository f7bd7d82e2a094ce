"""How an item of state is cut for a peer that splits its heads over another number of ranks."""

from __future__ import annotations

from math import prod

from kvproto.protocols import StatePool

from ..broken import LawBroken
from ..law import law
from ..not_asked import NotAsked
from ..state_bench import StateBench
from .state import TENSORS

_LISTS = (
    "get_state_dim_per_tensor",
    "get_state_slice_outer_counts",
    "get_state_conv_shard_groups",
)


@law(
    "state.slices",
    StatePool,
    needs=(*TENSORS, "state.transfer-items"),
    check="tell the axis that ranks split of each entry; 0 where every rank has the tensor whole",
)
def slices(bench: StateBench) -> None:
    """Each exported entry says which axis is split, what lies before it, and in which blocks."""
    told = [getattr(bench.pool, name)() for name in _LISTS]
    if not any(told):
        raise NotAsked("it tells of no axis that ranks split, so its items travel whole")
    for name, got, expected in zip(_LISTS, told, zip(*_expected(bench), strict=True), strict=True):
        bench.expect(f"{name}()", expected=list(expected), got=list(got))


def _expected(bench: StateBench) -> list[tuple[int, int, list[int] | None]]:
    request = bench.request
    groups = None if request.conv_shard_groups is None else list(request.conv_shard_groups)
    expected: list[tuple[int, int, list[int] | None]] = []
    for pointer in bench.pool.get_contiguous_buf_infos()[0]:
        name, shape = _held(bench, pointer)
        axis = request.conv_slice_axis if name.startswith("conv") else 0
        if axis is None:
            expected.append((0, 1, groups))
        else:
            blocks = groups if name.startswith("conv") else None
            expected.append((shape[axis], prod(shape[:axis]), blocks))
    return expected


def _held(bench: StateBench, pointer: int) -> tuple[str, tuple[int, ...]]:
    """The tensor whose bytes an entry begins in: its name, and the shape of a slot."""
    for name, tensor in bench.tensors().items():
        if 0 <= pointer - tensor.data_ptr() < tensor.nbytes:
            return name, tuple(tensor.shape[2:])
    raise LawBroken("get_contiguous_buf_infos()", expected="state tensors", got=f"{pointer:#x}")
