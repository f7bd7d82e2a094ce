"""Which draft slots are kept, against a plain-Python model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.kernels import prefix_locations
from tests.reference.sync_free import SyncFree

INDEX_DTYPES = st.sampled_from((torch.int32, torch.int64))


@settings(deadline=None)
@given(st.data(), INDEX_DTYPES, INDEX_DTYPES)
def test_keeps_each_rows_prefix(
    data: st.DataObject, slot_dtype: torch.dtype, length_dtype: torch.dtype
) -> None:
    drafts = data.draw(st.integers(1, 4))
    row = st.lists(st.integers(-5, 99), min_size=drafts, max_size=drafts)
    slots = data.draw(st.lists(row, max_size=4))
    lengths = [data.draw(st.integers(-2, drafts + 2)) for _ in slots]
    given_slots = torch.tensor(slots, dtype=slot_dtype).view(-1, drafts)
    with SyncFree():  # type: ignore[no-untyped-call]  # torch has no types here
        kept = prefix_locations(given_slots, torch.tensor(lengths, dtype=length_dtype))
    assert kept.dtype == slot_dtype
    model = [
        s if d < n else 0 for n, r in zip(lengths, slots, strict=True) for d, s in enumerate(r)
    ]
    assert kept.tolist() == model


@pytest.mark.parametrize(
    ("slots", "lengths"), [((4,), (4,)), ((2, 2), (3,)), ((2, 2), (2, 1)), ((2, 2, 1), (2,))]
)
def test_refuses_shapes_that_do_not_belong_together(
    slots: tuple[int, ...], lengths: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"must be \(requests, drafts\) and \(requests,\)"):
        prefix_locations(torch.ones(slots).long(), torch.ones(lengths).long())
