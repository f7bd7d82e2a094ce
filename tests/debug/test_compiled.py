"""Where values cannot be read, or code is traced, checks stand aside and never break it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kvproto.debug import validate
from tests.debug.toy import KEY, VALUE, Layer, ToyPool, locations, refusal, rows


@pytest.fixture
def pool() -> ToyPool:
    return validate(ToyPool())


def test_compiled_code_holds_the_plain_method(pool: ToyPool) -> None:
    layer = Layer()

    def step(loc: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        pool.set_kv_buffer(layer, loc, k, v)
        return pool.get_key_buffer(0)[loc] + pool.size

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    found = compiled(locations(2, 3), rows(2, KEY), rows(2, VALUE))
    assert found.eq(9).all()
    assert "loc_info" in refusal(pool.set_kv_buffer, layer, None, None, None)


def test_fake_tensors_are_checked_by_shape_only(pool: ToyPool) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        far = mode.from_tensor(torch.tensor([2, 99]))
        pool.move_kv_cache(far, far)
        assert "src_loc: expected as many" in refusal(pool.move_kv_cache, far, far[:1])


def test_meta_tensors_are_checked_by_shape_only() -> None:
    pool = ToyPool()
    pool.device = "meta"
    validate(pool)
    pool.move_kv_cache(torch.empty(2, dtype=torch.int64, device="meta"), locations(2, 3).to("meta"))
    assert "expected a tensor on meta" in refusal(pool.move_kv_cache, locations(2), locations(3))
