"""Rows of a request table: one owner each, a new generation each time."""

from __future__ import annotations

import torch

from kvproto.protocols import RequestPool

from ..account_bench import refused
from ..law import law
from ..row_bench import RowsBench


@law(
    "request.rows",
    RequestPool,
    check="one row more than size and pre_alloc_size; count rows from 1",
)
def rows(bench: RowsBench) -> None:
    """Every row but 0 is handed out, once, and then none; the table is as wide as asked for."""
    pool, request = bench.pool, bench.request
    count = len(bench.lendable)
    bench.expect("available_size()", expected=count, got=pool.available_size())
    shape = (count + 1, request.max_context_len)
    bench.expect(
        "req_to_token",
        expected=(torch.int32, *shape),
        got=(pool.req_to_token.dtype, *pool.req_to_token.shape),
    )
    sizes = (request.size, request.pre_alloc_size, request.max_context_len)
    got = (pool.size, pool.pre_alloc_size, pool.max_context_len)
    bench.expect("size, pre_alloc_size, max_context_len", expected=sizes, got=got)
    given = [*bench.alloc(bench.requests(2)), *bench.alloc(bench.requests(count - 2))]
    bench.expect("all rows", expected=list(bench.lendable), got=sorted(given))
    bench.expect("alloc(1 request), no row left", expected=None, got=pool.alloc(bench.requests(1)))


@law(
    "request.write",
    RequestPool,
    needs=("request.rows",),
    check="req_to_token[indices] = values; padded batches write to row 0",
)
def write(bench: RowsBench) -> None:
    """Slots are written where they are sent, to the padding row too, and nowhere else."""
    table = bench.pool.req_to_token
    expected = table.clone()
    row = bench.alloc(bench.requests(1))[0]
    for indices, values in (
        ((row, slice(1, 4)), [7, 8, 9]),
        ((torch.tensor([0, row]), torch.tensor([4, 0])), [3, 4]),
        ((row, slice(2, 2)), []),
    ):
        slots = torch.tensor(values, dtype=torch.int32)
        bench.pool.write(indices, slots)
        expected[indices] = slots
        bench.expect_same(f"write({indices}, {values})", table, expected, "row")


@law(
    "request.generation",
    RequestPool,
    needs=("request.rows",),
    check="add 1 when a row is handed out, for that row only; clear does not reset it",
)
def generation(bench: RowsBench) -> None:
    """A row's generation grows whenever it is handed out, and only then; not back, not by clear."""
    pool, seen = bench.pool, bench.pool.req_generation.clone()
    one, count = bench.requests(1)[0], len(bench.lendable)
    for step in range(2 * count):
        row = bench.alloc([one])[0]
        grown = [int(i) for i in (pool.req_generation > seen).nonzero().flatten()]
        bench.expect("rows of a larger req_generation, after alloc", expected=[row], got=grown)
        seen = pool.req_generation.clone()
        bench.alloc([one])
        pool.free(one) if step % 2 else pool.clear()
        one = bench.requests(1)[0]
        call = "req_generation after a second alloc, free or clear"
        bench.expect(call, expected=seen.tolist(), got=pool.req_generation.tolist())


@law(
    "request.reuse",
    RequestPool,
    needs=("request.rows",),
    check="a request that has a row keeps it; a freed row goes to one request, with its entries",
)
def reuse(bench: RowsBench) -> None:
    """A request keeps its row until it is freed; then the row has one new owner at most."""
    held, count = bench.requests(2), len(bench.lendable)
    rows = bench.alloc(held)
    bench.pool.write((rows[0], slice(0, 2)), torch.tensor([5, 6], dtype=torch.int32))
    again = bench.alloc([*held[::-1], *bench.requests(1)])
    bench.expect("alloc of two that have rows", expected=rows[::-1], got=again[:2])
    bench.expect("available_size()", expected=count - 3, got=bench.pool.available_size())
    bench.pool.free(held[0])
    refused(lambda: bench.pool.free(held[0]))
    bench.expect("after free twice", expected=count - 2, got=bench.pool.available_size())
    kept = bench.pool.req_to_token[rows[0], :2].tolist()
    bench.expect("entries of a freed row", expected=[5, 6], got=kept)
    rest = bench.alloc(bench.requests(count - 2))
    every = sorted([rows[1], again[2], *rest])
    bench.expect("owners of rows", expected=list(bench.lendable), got=every)
    bench.pool.clear()
    bench.expect("available_size(), cleared", expected=count, got=bench.pool.available_size())


@law(
    "request.all-or-nothing",
    RequestPool,
    needs=("request.rows",),
    check="count those without a row, compare with what is free, and only then set the first",
)
def all_or_nothing(bench: RowsBench) -> None:
    """When there are too few rows, None comes back and no request was given one."""
    pool, held = bench.pool, bench.requests(2)
    bench.alloc(held)
    before = (pool.available_size(), pool.req_generation.tolist())
    waiting = bench.requests(pool.available_size() + 1)
    call = f"alloc(2 that have rows, {len(waiting)} that do not)"
    bench.expect(call, expected=None, got=pool.alloc([*held, *waiting]))
    bench.expect(f"{call}; rows", expected={None}, got={r.row for r in waiting})
    after = (pool.available_size(), pool.req_generation.tolist())
    bench.expect(f"{call}; available_size(), req_generation", expected=before, got=after)


@law(
    "request.empty-batch",
    RequestPool,
    needs=("request.rows",),
    check="end early for a batch of no request: there is nothing to stack",
)
def empty_batch(bench: RowsBench) -> None:
    """A batch of no request is given no rows, also when none is left."""
    bench.expect("alloc(no request)", expected=[], got=bench.pool.alloc([]))
    bench.alloc(bench.requests(len(bench.lendable)))
    bench.expect("alloc(no request), no row left", expected=[], got=bench.pool.alloc([]))
