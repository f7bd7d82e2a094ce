"""Row stores and moves against a plain-Python model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvproto.kernels import check_locations, move_rows, store_row_sets, store_rows
from kvproto.kernels.row_words import row_words

pytestmark = pytest.mark.usefixtures("host_or_device")

SLOTS = 9
LOCATIONS = st.lists(st.integers(-3, SLOTS - 1), max_size=12)
INDEX_DTYPES = st.sampled_from((torch.int32, torch.int64))


def rows_of(n: int) -> Tensor:
    return torch.arange(1, n * 6 + 1, dtype=torch.float32).view(n, 2, 3)


@settings(deadline=None)
@given(LOCATIONS, INDEX_DTYPES)
def test_store_follows_the_model(locations: list[int], dtype: torch.dtype) -> None:
    target, rows = torch.zeros(SLOTS, 2, 3), rows_of(len(locations))
    store_rows(target, torch.tensor(locations, dtype=dtype), rows)
    written: dict[int, list[Tensor]] = {}
    for location, row in zip(locations, rows, strict=True):
        if location >= 1:
            written.setdefault(location, []).append(row)
    for slot in range(SLOTS):
        candidates = written.get(slot, [torch.zeros(2, 3)])
        assert any(torch.equal(target[slot], row) for row in candidates)


@settings(deadline=None)
@given(st.data(), INDEX_DTYPES)
def test_move_reads_all_sources_first(data: st.DataObject, dtype: torch.dtype) -> None:
    targets = data.draw(st.lists(st.integers(-1, SLOTS - 1), max_size=8, unique=True))
    n = len(targets)
    sources = data.draw(st.lists(st.integers(0, SLOTS - 1), min_size=n, max_size=n))
    buffer = rows_of(SLOTS)
    buffer[0] = 0
    expected = {t: buffer[s].clone() for t, s in zip(targets, sources, strict=True) if t >= 1}
    before = buffer.clone()
    move_rows(buffer, torch.tensor(targets, dtype=dtype), torch.tensor(sources, dtype=dtype))
    for slot in range(SLOTS):
        assert torch.equal(buffer[slot], expected.get(slot, before[slot]))


@pytest.mark.parametrize("width", [1, 3, 4, 6, 8])
@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32])
def test_rows_of_any_width_and_place(dtype: torch.dtype, offset: int, width: int) -> None:
    """Whole aligned words or not, dense or not: the same rows are stored and no other byte."""
    memory = torch.zeros(offset + SLOTS * width + 3).to(dtype)
    target = memory[offset : offset + SLOTS * width].view(SLOTS, 1, width)
    source = torch.arange(1, 4 * 2 * width + 1 + offset).to(dtype)[offset:].view(4, 1, 2 * width)
    for rows in (
        source[..., :width],
        source[..., width:].clone(),
        source[:1, :, :width].expand(4, -1, -1),
    ):
        memory.zero_()
        store_rows(target, torch.tensor([5, 0, -1, 2]), rows)
        expected = torch.zeros_like(memory)
        for i, slot in ((0, 5), (3, 2)):
            expected[offset + slot * width : offset + (slot + 1) * width] = rows[i, 0]
        assert torch.equal(memory, expected)


def test_wide_rows_are_seen_as_words() -> None:
    """Otherwise writes are as slow as element by element, and only a benchmark would tell."""
    target, rows = torch.zeros(9, 2, 8, dtype=torch.bfloat16), torch.ones(3, 2, 8).bfloat16()
    into, given = row_words(target, rows)
    assert (into.shape, given.shape) == ((9, 4), (3, 4))
    assert into.data_ptr() == target.data_ptr()
    assert row_words(target[..., :3], rows[..., :3])[0].dtype == torch.bfloat16


@pytest.mark.parametrize("n", [3, 40])
def test_rows_of_the_targets_own_memory_are_read_first(n: int) -> None:
    target = torch.arange(n + 3).view(-1, 1, 1).repeat(1, 2, 600)
    expected = [0, 1, *range(1, n + 1), n + 2]
    store_rows(target, torch.arange(2, n + 2), target[1 : n + 1])
    assert torch.equal(target, torch.tensor(expected).view(-1, 1, 1).expand(-1, 2, 600))


def test_nothing_that_is_dropped_reaches_the_reserved_slot() -> None:
    target = torch.zeros(4, 1, 2)
    rows = torch.full((3, 1, 2), float("nan"))
    store_rows(target, torch.tensor([0, -1, 0]), rows)
    assert torch.equal(target, torch.zeros(4, 1, 2))


@pytest.mark.parametrize("n", [1, 2, 8, 9, 40])
@pytest.mark.parametrize("bad", [64, 1 << 20])
def test_a_row_past_the_end_stops_all_of_them(n: int, bad: int) -> None:
    """As many as are copied one by one, and more."""
    target = torch.zeros(64, 1, 2)
    loc = torch.cat((torch.arange(1, n), torch.tensor([bad])))
    with pytest.raises(IndexError):
        store_rows(target, loc, torch.ones(n, 1, 2))
    for tgt, src in ((loc, loc.clamp(max=63)), (loc.clamp(max=63), loc)):
        with pytest.raises(IndexError):
            move_rows(target, tgt, src)
    assert torch.equal(target, torch.zeros(64, 1, 2))


@pytest.mark.parametrize("n", [1, 4, 8, 9, 40])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_any_number_of_rows(n: int, dtype: torch.dtype) -> None:
    """Every other location is padding; slot 0 is zeros whatever was meant for it."""
    target, rows = torch.full((64, 2, 3), 7.0), rows_of(n)
    target[0] = 0
    loc = torch.arange(1, n + 1, dtype=dtype)
    loc[::2] = -loc[::2]
    store_rows(target, loc, rows)
    expected = torch.full((64, 2, 3), 7.0)
    expected[0] = 0
    expected[2 : n + 1 : 2] = rows[1::2]
    assert torch.equal(target, expected)
    move_rows(target, loc.flip(0), loc)
    moved = expected.clone()
    for to, of in zip(loc.flip(0).tolist(), loc.tolist(), strict=True):
        if to > 0:
            moved[to] = expected[max(of, 0)]
    assert torch.equal(target, moved)


@pytest.mark.parametrize("loc", [[0, 9], [9], [100, 1]])
def test_a_location_past_the_end_is_named(loc: list[int]) -> None:
    with pytest.raises(IndexError, match=f"location {max(loc)} is past the last row 8"):
        check_locations(torch.tensor(loc), SLOTS)


def test_locations_have_one_dimension_and_an_integer_type() -> None:
    check_locations(torch.empty(0, dtype=torch.int32), SLOTS)
    with pytest.raises(TypeError, match=r"loc is torch\.float32"):
        check_locations(torch.zeros(2), SLOTS)
    with pytest.raises(ValueError, match="must be one-dimensional"):
        check_locations(torch.zeros(2, 2, dtype=torch.int64), SLOTS)


def test_rows_past_two_gib_are_reached(tmp_path: object) -> None:
    """A sparse file stands in for memory: 14400 pages of 149760 bytes, one row written."""
    width, page = 149760, 14340
    path = f"{tmp_path}/pool"
    target = torch.from_file(path, shared=True, size=14400 * width, dtype=torch.uint8)
    row = torch.arange(width, dtype=torch.int64).remainder(251).to(torch.uint8)
    store_rows(target.view(14400, width), torch.tensor([page], dtype=torch.int32), row.unsqueeze(0))
    with open(path, "rb") as file:
        file.seek(2147558400)
        assert file.read(width) == bytes(row.numpy().tobytes())


@settings(deadline=None)
@given(LOCATIONS, INDEX_DTYPES)
def test_several_sets_are_stored_as_one_by_one(locations: list[int], dtype: torch.dtype) -> None:
    kept = list(dict.fromkeys(locations))
    loc, n = torch.tensor(kept, dtype=dtype), len(kept)
    sets = [rows_of(n), torch.arange(n * 5).view(n, 5).to(torch.uint8), rows_of(n).half()[:, :1]]
    once, apart = ([torch.zeros(SLOTS, *s.shape[1:], dtype=s.dtype) for s in sets] for _ in "ab")
    store_row_sets(loc, list(zip(once, sets, strict=True)))
    for target, rows in zip(apart, sets, strict=True):
        store_rows(target, loc, rows)
    assert all(torch.equal(a, b) for a, b in zip(once, apart, strict=True))


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("slots", [(SLOTS, SLOTS), (SLOTS + 1, SLOTS)])
def test_a_location_past_the_end_stops_all_sets(n: int, slots: tuple[int, int]) -> None:
    """The target that comes first may have the slot that the other has not."""
    targets = [torch.zeros(each, 2, 3) for each in slots]
    loc = torch.arange(SLOTS - n + 1, SLOTS + 1)
    with pytest.raises(IndexError):
        store_row_sets(loc, [(target, rows_of(n)) for target in targets])
    assert not any(target.any() for target in targets)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_rows_of_sets_have_any_strides(n: int) -> None:
    targets, wide = [torch.zeros(SLOTS + 1, 2, 3) for _ in "ab"], rows_of(2 * n)
    loc = torch.arange(1, n + 1)
    store_row_sets(loc, [(targets[0], wide[::2]), (targets[1], wide[1::2])])
    assert torch.equal(targets[0][loc], wide[::2])
    assert torch.equal(targets[1][loc], wide[1::2])


@pytest.mark.parametrize("n", [1, 2, 9])
def test_rows_that_are_nowhere_are_not_read(n: int) -> None:
    """Only an address of this process's memory may be copied from."""
    target, rows = torch.zeros(SLOTS + 1, 2, 3), rows_of(n).to("meta")
    with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
        store_rows(target, torch.arange(1, n + 1), rows)
