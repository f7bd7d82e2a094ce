"""The fp8 workspace of NVFP4 rows: which row holds which token, and what it holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.reference import NVFP4Leaf

LAYER: Any = SimpleNamespace(layer_id=1)
PAGE = 4
GEOMETRY: dict[str, Any] = {
    "size": 28,
    "page_size": PAGE,
    "dtype": torch.float4_e2m1fn_x2,
    "head_num": 1,
    "head_dim": 32,
    "v_head_dim": 16,
    "layer_num": 2,
    "device": "cpu",
}
TABLE = torch.tensor([[4, 5, 6, 7, 12, 13, 0, 0], [20, 21, 22, 0, 0, 0, 0, 0]])


def filled() -> NVFP4Leaf:
    """Token slot `s` of layer 1 holds a row of `steps[s]`, exact in four and in eight bits."""
    leaf = NVFP4Leaf(**GEOMETRY)
    leaf.k_global_scales[1], leaf.v_global_scales[1] = 2.0, 0.5
    loc = torch.arange(1, 32)
    leaf.set_kv_buffer(LAYER, loc, _rows(loc, 32), _rows(loc, 16, 7))
    return leaf


def _rows(tokens: Tensor, width: int, salt: int = 0) -> Tensor:
    """Six times a power of two in each: exact under every scale used here."""
    powers = 2.0 ** ((tokens + salt) % 5)
    return (6 * powers).view(-1, 1, 1).expand(-1, 1, width).contiguous()


def test_a_prefill_batch_lies_request_after_request_from_the_second_page() -> None:
    leaf = filled()
    new = torch.tensor([100, 101, 102])
    k, v = leaf.get_flashinfer_dequant_workspace_kv_buffer(
        LAYER,
        TABLE,
        [0, 1],
        torch.tensor([6, 3]),
        [1, 2],
        PAGE,
        prepare_workspace=True,
        use_ragged=False,
        k_cur=_rows(new, 32),
        v_cur=_rows(new, 16, 7),
    )
    assert (k.data_ptr(), v.data_ptr()) == (
        leaf.dq_k_buffer.data_ptr(),
        leaf.dq_v_buffer.data_ptr(),
    )
    assert k.dtype == torch.float8_e4m3fn
    first, second = TABLE[0, :6], TABLE[1, :3]
    at = {4: torch.cat([first, new[:1]]), 12: torch.cat([second, new[1:]])}
    for start, tokens in at.items():
        rows = slice(start, start + len(tokens))
        assert torch.equal(k[rows].float(), _rows(tokens, 32))
        assert torch.equal(v[rows].float(), _rows(tokens, 16, 7))
    assert not k[:4].float().any()


def test_a_ragged_batch_holds_its_prefixes_only() -> None:
    leaf = filled()
    k, _ = leaf.get_flashinfer_dequant_workspace_kv_buffer(
        LAYER,
        TABLE,
        [1, 0],
        [3, 2],
        [4, 4],
        PAGE,
        prepare_workspace=True,
        use_ragged=True,
        k_cur=torch.ones(8, 1, 32),
        v_cur=torch.ones(8, 1, 16),
    )
    assert torch.equal(k[4:7].float(), _rows(TABLE[1, :3], 32))
    assert torch.equal(k[8:10].float(), _rows(TABLE[0, :2], 32))
    assert not k[10:].float().any()


def test_a_prepared_workspace_is_returned_as_it_is() -> None:
    leaf = filled()
    asked: tuple[Any, ...] = (LAYER, TABLE, [0], [6], [0], PAGE)
    workspace = leaf.get_flashinfer_dequant_workspace_kv_buffer
    k, _ = workspace(*asked, prepare_workspace=True, use_ragged=False)
    before = k.view(torch.uint8).clone()
    leaf.set_kv_buffer(LAYER, torch.tensor([4]), torch.zeros(1, 1, 32), torch.zeros(1, 1, 16))
    again, _ = workspace(*asked, prepare_workspace=False, use_ragged=False)
    assert torch.equal(again.view(torch.uint8), before)


def test_a_batch_beyond_the_workspace_is_refused_whole() -> None:
    leaf = filled()
    with pytest.raises(ValueError, match="workspace of 32 rows"):
        leaf.get_flashinfer_dequant_workspace_kv_buffer(
            LAYER, TABLE, [0, 1], [20, 9], [0, 0], PAGE, prepare_workspace=True, use_ragged=True
        )
    assert not leaf.dq_k_buffer.float().any()


def test_a_decode_batch_lies_at_its_own_slots() -> None:
    leaf = filled()
    lens = torch.tensor([6, 3])
    k, v = leaf.get_flashinfer_decode_dequant_workspace_kv_buffer(
        LAYER, TABLE, torch.tensor([0, 1]), lens
    )
    tokens = torch.cat([TABLE[0, :6], TABLE[1, :3]])
    assert torch.equal(k[tokens].float(), _rows(tokens, 32))
    assert torch.equal(v[tokens].float(), _rows(tokens, 16, 7))
    others = [slot for slot in range(32) if slot not in tokens.tolist()]
    assert not k[others].float().any()


def test_numbers_beyond_fp8_are_saturated() -> None:
    leaf = filled()
    leaf.k_global_scales[1] = 1.0
    huge = torch.full((1, 1, 32), 2000.0)
    leaf.set_kv_buffer(LAYER, torch.tensor([5]), huge, torch.ones(1, 1, 16))
    k, _ = leaf.get_flashinfer_decode_dequant_workspace_kv_buffer(
        LAYER, torch.tensor([[5]]), torch.tensor([0]), torch.tensor([1])
    )
    assert torch.equal(k[5].float(), torch.full((1, 32), 448.0))


def test_moves_and_copies_leave_the_workspace_alone() -> None:
    leaf = filled()
    leaf.get_flashinfer_decode_dequant_workspace_kv_buffer(
        LAYER, TABLE, torch.tensor([0]), torch.tensor([6])
    )
    before = leaf.dq_k_buffer.view(torch.uint8).clone()
    leaf.move_kv_cache(torch.tensor([4, 5]), torch.tensor([20, 21]))
    leaf.load_cpu_copy(leaf.get_cpu_copy(torch.tensor([6])), torch.tensor([7]))
    assert torch.equal(leaf.dq_k_buffer.view(torch.uint8), before)
