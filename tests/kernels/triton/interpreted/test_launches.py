"""How kernels are launched: for which tensors, how often, and with what refused."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor

from kvproto.kernels import RowTiles, move_row_sets, store_row_sets, store_rows
from kvproto.kernels.triton import move_row_sets as moving
from kvproto.kernels.triton import move_staged as staging
from kvproto.kernels.triton import pointer_table as tables
from kvproto.kernels.triton.gather_rows import plan_gather_rows
from kvproto.kernels.triton.launch import run
from kvproto.kernels.triton.move_index_keys import plan_move_index_keys
from kvproto.kernels.triton.move_row_sets import plan_move_row_sets, plan_move_tiled_row_sets
from kvproto.kernels.triton.rows import walked
from kvproto.kernels.triton.slots import plan_copy_slots
from kvproto.kernels.triton.store_row_sets import plan_store_row_sets

served = pytest.mark.usefixtures("served_on_cpu")


def rows_of(n: int, *row: int) -> Tensor:
    return torch.randn(n, *row, generator=torch.Generator().manual_seed(n))


@served
def test_a_target_whose_rows_are_not_dense_is_refused_before_anything_is_written() -> None:
    sets = [(torch.zeros(4, 2, 3), rows_of(1, 2, 3)), (torch.zeros(4, 3, 2).mT, rows_of(1, 2, 3))]
    message = r"store_row_sets: rows \(2, 3\) of the target have strides \(1, 2\); served are dense"
    with pytest.raises(ValueError, match=message):
        store_row_sets(torch.tensor([2]), sets)
    assert not any(target.any() for target, _ in sets)


@served
def test_tensors_of_two_devices_are_refused() -> None:
    """A kernel would read an address of another device."""
    target, rows = torch.zeros(4, 2), torch.ones(1, 2)
    with pytest.raises(ValueError, match="store_row_sets: tensors are on cpu and meta"):
        store_rows(target, torch.tensor([2], device="cpu"), rows.to("meta"))
    with pytest.raises(ValueError, match="move_row_sets: tensors are on cpu and meta"):
        move_row_sets([target, target.to("meta")], torch.tensor([2]), torch.tensor([1]))


@served
@pytest.mark.parametrize("order", [(2, 0, 1), (0, 2, 1), (1, 0, 2)])
def test_rows_of_any_order_of_axes(order: tuple[int, ...]) -> None:
    """More strides than a kernel walks are made dense first."""
    dense = rows_of(2 * 3 * 4, 5).view(2, 3, 4, 5)
    rows = dense.permute(*order, 3)
    target = torch.zeros(6, *rows.shape[1:])
    store_rows(target, torch.arange(1, rows.shape[0] + 1), rows)
    assert torch.equal(target[1 : rows.shape[0] + 1], rows)


@served
def test_nothing_to_store_is_no_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def launched(_device: torch.device) -> None:
        raise RuntimeError("launched")

    monkeypatch.setattr("kvproto.kernels.triton.launch._on", launched)
    with pytest.raises(RuntimeError, match="launched"):
        store_rows(torch.zeros(4, 2), torch.tensor([1]), torch.ones(1, 2))
    store_rows(torch.zeros(4, 2), torch.empty(0, dtype=torch.int64), torch.empty(0, 2))
    store_rows(torch.zeros(4, 0), torch.tensor([1]), torch.empty(1, 0))
    move_row_sets([torch.zeros(4, 0)], torch.tensor([1]), torch.tensor([2]))
    move_row_sets([], torch.tensor([1]), torch.tensor([2]))


def test_a_location_past_the_end_is_dropped() -> None:
    """Operations refuse it on the CPU; on a device nobody waits to look."""
    memory = torch.zeros(8, 2)
    run(plan_store_row_sets(torch.tensor([4, 3, 1 << 40]), [(memory[:4], torch.ones(3, 2))]))
    assert memory.count_nonzero() == 2
    past = torch.tensor([4, 2, 1])
    for launch in plan_move_row_sets([memory[:4]], past, torch.tensor([3, 4, 3])):
        run(launch)
    assert memory.count_nonzero() == 4
    assert memory[1].all()


@pytest.mark.parametrize("n", [16, 32, 33, 256])
def test_all_layers_are_moved_in_one_launch(n: int) -> None:
    buffers = [torch.empty(1000, 2, 64, device="meta") for _ in range(64)]
    loc = torch.empty(n, dtype=torch.int64, device="meta")
    (launch,) = plan_move_row_sets(buffers, loc, loc)
    assert launch.grid == (2 * 64 * 4 // 128, 64)


@pytest.mark.parametrize("n", [257, 4096])
def test_more_pairs_are_moved_in_two_launches_of_many_programs(n: int) -> None:
    """Out into other memory, and back: how many there are does not follow the pairs."""
    buffers = [torch.empty(10_000, 2, 64, device="meta") for _ in range(64)]
    loc = torch.empty(n, dtype=torch.int64, device="meta")
    out, back = plan_move_row_sets(buffers, loc, loc)
    assert out.grid == back.grid == (-(-n * 2 * 64 * 4 // (2048 * 8)), 64)
    assert (out.constants["READS"], back.constants["READS"]) == (True, False)
    state = torch.empty(4, 10_000, 64, device="meta")
    assert len(list(plan_copy_slots(state, loc, loc))) == 2
    pages = [torch.empty(200, 132 * 64, dtype=torch.uint8, device="meta") for _ in range(64)]
    assert len(list(plan_move_index_keys(pages, loc, loc, 128))) == 4
    tiles = RowTiles(page_stride=64 * 128, token=((64, 128),), row=((128, 1),))
    flat = [torch.empty(200 * 64 * 128, device="meta") for _ in range(64)]
    assert len(list(plan_move_tiled_row_sets(flat, loc, loc, tiles))) == 2


@pytest.mark.parametrize("width", [32, 1500])
def test_what_is_staged_is_bounded(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """In as many launches as that takes, of buffers or of their columns; memory is used again."""
    monkeypatch.setattr(moving, "IN_REGISTERS", 32)
    columns = min(512, width // 2)
    monkeypatch.setattr(staging, "_STAGED_BYTES", 3 * 40 * columns * 8)
    buffers = [rows_of(100, width) for _ in range(4)]
    before = [buffer.clone() for buffer in buffers]
    targets, sources = torch.arange(1, 41), torch.arange(40, 0, -1)
    launches = list(plan_move_row_sets(buffers, targets, sources))
    parts = 4 * -(-width // 2 // columns)
    assert [launch.grid[1] for launch in launches[::2]] == [
        *(parts // 3) * (3,), *(parts % 3 > 0) * (parts % 3,)
    ]  # fmt: skip
    for launch in launches:
        run(launch)
    for buffer, was in zip(buffers, before, strict=True):
        assert torch.equal(buffer[1:41], was[1:41].flip(0))
        assert torch.equal(buffer[41:], was[41:])


def test_pools_of_several_kinds_of_row_are_moved() -> None:
    buffers = [rows_of(10, 2, 16), rows_of(12, 3), rows_of(10, 2, 16).bfloat16()]
    expected = [buffer.clone() for buffer in buffers]
    for each in expected:
        each[2], each[3] = each[3].clone(), each[2].clone()
    launches = list(plan_move_row_sets(buffers, torch.tensor([2, 3]), torch.tensor([3, 2])))
    for launch in launches:
        run(launch)
    assert len(launches) == 3
    assert all(map(torch.equal, buffers, expected))


@pytest.mark.parametrize("n", [1, 16])
def test_columns_of_tables_of_any_width_are_one_kernel(n: int) -> None:
    target, rows = torch.empty(100, 8, 128, device="meta"), torch.empty(n, 8, 128, device="meta")
    tables = [torch.empty(n, width, dtype=torch.int64, device="meta") for width in (5, 1000, 1001)]
    stored = [plan_store_row_sets(table[:, 3], [(target, rows)]) for table in tables]
    read = [plan_gather_rows(target, table[:, 3], rows) for table in tables]
    for first, *others in (stored, read):
        assert all(each.constants == first.constants for each in others)


def test_rows_by_head_of_any_number_are_few_kernels() -> None:
    """One for all but one row, which is dense."""
    target = torch.empty(100, 8, 128, device="meta")
    shapes: set[str] = set()
    for n in range(2, 65):
        rows = torch.empty(8, n, 128, device="meta").transpose(0, 1)
        loc = torch.empty(n, dtype=torch.int64, device="meta")
        shapes.add(repr(plan_store_row_sets(loc, [(target, rows)]).constants))
        assert walked(rows) is rows
    assert len(shapes) == 1
    fused = torch.empty(5, 3 * 8 * 128, device="meta")[:, :1024].view(5, 8, 128)
    assert walked(fused) is fused


@served
def test_a_column_of_a_table_says_where_rows_go() -> None:
    table, target = torch.tensor([[9, 1, 9], [9, 3, 9]]), torch.zeros(5, 2)
    store_rows(target, table[:, 1], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert target.tolist() == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0]]


def test_a_table_is_made_once_and_holds_addresses() -> None:
    buffers = [torch.zeros(3) for _ in "abc"]
    table = tables.pointer_table(buffers)
    assert table.tolist() == [buffer.data_ptr() for buffer in buffers]
    assert tables.pointer_table(buffers) is table
    assert tables.pointer_table(buffers[:2]) is not table


def test_a_table_is_refused_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it was made before: replays read that one."""
    first, second = [torch.zeros(3)], [torch.zeros(3)]
    table = tables.pointer_table(first)
    monkeypatch.setattr(tables, "_is_capturing", lambda _: True)
    assert tables.pointer_table(first) is table
    with pytest.raises(RuntimeError, match="call the operation once before capturing"):
        tables.pointer_table(second)


def test_a_table_lives_as_long_as_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_tables", {})
    for size in range(1, 20):
        tables.pointer_table([torch.zeros(100 * size) for _ in "abc"])
    assert len(tables._tables) == 1
    views = torch.zeros(8).split(2)
    table = tables.pointer_table(views)
    assert tables.pointer_table([view[:1] for view in views]) is table


def test_an_address_that_is_given_out_again_has_a_new_table() -> None:
    """The old one goes with the old pool, though a graph of the new one reads it."""
    memory = (ctypes.c_char * 64)()
    old = torch.frombuffer(memory, dtype=torch.uint8)
    table = tables.pointer_table([old])
    new = torch.frombuffer(memory, dtype=torch.uint8)
    assert tables.pointer_table([new]) is not table
    assert tables.pointer_table([new]).tolist() == table.tolist()
