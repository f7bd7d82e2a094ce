"""A workspace of 8-bit rows that stand in for 4-bit ones."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.protocols import FP4Workspace, KVPool

from ..block_bench import BlockBench
from ..kv_bench import LayerStub
from ..law import law
from .leaf import OWNED
from .scales import has_blocks

_NEEDS = (*OWNED, "leaf.write-read")


@law(
    "workspace.raw",
    FP4Workspace,
    KVPool,
    applies=has_blocks,
    needs=_NEEDS,
    check="hand out the packed rows and their scales themselves, of the layer that was asked for",
)
def raw(bench: BlockBench) -> None:
    """The raw door shows packed rows and scales of a layer as they are stored."""
    for layer_id in bench.layer_ids:
        bench.write(torch.tensor([1]), *bench.pair(1, layer_id, layer_id), layer_id)
    for layer_id in bench.layer_ids:
        shown = [x.view(torch.uint8).flatten(1) for x in bench.pool.get_raw_kv_buffer(layer_id)]
        for index, side in enumerate(bench.sides):
            elements, scales = (part.flatten(1) for part in bench.parts(side, layer_id))
            call = f"get_raw_kv_buffer({layer_id})"
            bench.expect_same(call, shown[index], elements, f"{side} row")
            bench.expect_same(call, shown[2 + index], scales, f"{side} scales of row")


@law(
    "workspace.decode",
    FP4Workspace,
    KVPool,
    applies=has_blocks,
    needs=_NEEDS,
    check="put each token at its own slot; stop at each request's length; round to e4m3fn",
)
def decode(bench: BlockBench) -> None:
    """A decode batch is dequantised to its own slots, and what is past a length is not."""
    last, layer_id = bench.slots - 1, bench.layer_ids[-1]
    table = torch.tensor([[3, last, 7], [2, 1, 5], [4, 6, 8]])
    _fill(bench, layer_id)
    for dtype in (torch.int32, torch.int64):
        shown = bench.pool.get_flashinfer_decode_dequant_workspace_kv_buffer(
            LayerStub(layer_id),
            table.to(dtype),
            torch.tensor([1, 0], dtype=dtype),
            torch.tensor([1, 2], dtype=dtype),
        )
        call = "get_flashinfer_decode_dequant_workspace_kv_buffer(rows [1, 0], lengths [1, 2])"
        _expect(bench, call, shown, {2: 2, 3: 3, last: last}, layer_id)


@law(
    "workspace.prefill",
    FP4Workspace,
    KVPool,
    applies=has_blocks,
    needs=_NEEDS,
    check="start on the second page, each request on a page; its new rows right after its prefix",
)
def prefill(bench: BlockBench) -> None:
    """A prefill batch lies request after request, each on a page: its prefix, then its new rows."""
    last, layer_id, page = bench.slots - 1, bench.layer_ids[-1], 2
    table = torch.tensor([[3, last, 7], [2, 1, 5]])
    new = bench.pair(8, 5, layer_id)
    for ragged in (False, True):
        _fill(bench, layer_id)
        shown = bench.pool.get_flashinfer_dequant_workspace_kv_buffer(
            LayerStub(layer_id),
            table,
            [1, 0],
            [1, 2],
            [2, 1],
            page,
            prepare_workspace=True,
            use_ragged=ragged,
            k_cur=new[0][:3],
            v_cur=new[1][:3],
        )
        call = f"get_flashinfer_dequant_workspace_kv_buffer(prefixes [1, 2], use_ragged={ragged})"
        second = 4 if ragged else 6
        _expect(bench, call, shown, {page: 2, second: 3, second + 1: last}, layer_id, rest=False)
        if not ragged:
            for side, rows, given in zip(bench.sides, shown, new, strict=True):
                at = [page + 1, page + 2, second + 2]
                bench.expect_same(call, rows[at].float(), given[:3].float(), f"new {side} row")


@law(
    "workspace.prepared",
    FP4Workspace,
    KVPool,
    applies=has_blocks,
    needs=_NEEDS,
    check="without prepare_workspace return the workspace as it is: another layer's is kept out",
)
def prepared(bench: BlockBench) -> None:
    """A workspace that was prepared is handed out again as it is, and is where it is declared."""
    pool, layer_id = bench.pool, bench.layer_ids[0]
    _fill(bench, layer_id)
    arguments = LayerStub(layer_id), torch.tensor([[1, 2]]), [0], [2], [0], 1
    door = pool.get_flashinfer_dequant_workspace_kv_buffer
    first = [x.clone() for x in door(*arguments, prepare_workspace=True, use_ragged=False)]
    bench.write(torch.tensor([1, 2]), *bench.pair(2, 4, layer_id), layer_id)
    again = door(*arguments, prepare_workspace=False, use_ragged=False)
    for side, was, now in zip(bench.sides, first, again, strict=True):
        call = "get_flashinfer_dequant_workspace_kv_buffer(prepare_workspace=False)"
        bench.expect_same(call, now.float(), was.float(), f"{side} row")
    held = [x.data_ptr() for x in (pool.dq_k_buffer, pool.dq_v_buffer)]
    for name, shown in (
        ("the same call", again),
        ("get_dequant_workspace()", pool.get_dequant_workspace()),
    ):
        bench.expect(f"{name}: addresses", expected=held, got=[x.data_ptr() for x in shown])


def _fill(bench: BlockBench, layer_id: int) -> None:
    loc = torch.arange(1, bench.slots)
    k, v = bench.pair(bench.slots, layer_id, layer_id)
    bench.write(loc, k[1:], v[1:], layer_id)


def _expect(
    bench: BlockBench,
    call: str,
    shown: tuple[Tensor, Tensor],
    tokens: dict[int, int],
    layer_id: int,
    *,
    rest: bool = True,
) -> None:
    """Row by workspace row the number of the slot it stands for; `rest`: the others are zero."""
    pair = bench.pair(bench.slots, layer_id, layer_id)
    for side, rows, held in zip(bench.sides, shown, pair, strict=True):
        wanted = held[list(tokens.values())].float()
        bench.expect_same(call, rows[list(tokens)].float(), wanted, f"{side} row")
        if rest:
            others = [slot for slot in range(bench.slots) if slot not in tokens]
            empty = rows[others].float()
            bench.expect_same(call, empty, torch.zeros_like(empty), f"other {side} row")
