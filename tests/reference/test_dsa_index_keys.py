"""Index keys of the DSA leaf: their pages byte for byte, gathered, moved and copied."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvproto.debug import validate
from tests.reference.dsa_leaves import PACKED, filled, index_bytes, keys_of, make, pages_with
from tests.reference.stand_ins import Layer, Waits


def test_index_keys_lie_where_kernels_look() -> None:
    leaf = filled()
    tokens = {t: t for t in range(1, 192)}
    assert index_bytes(leaf, 1) == pages_with(tokens)
    page = index_bytes(leaf)[2]
    assert page[256:384] == bytes([130]) * 128
    assert page[8200:8204] == torch.tensor([130.0]).numpy().tobytes()
    assert leaf.get_index_k_with_scale_buffer(1) is leaf.index_k_with_scale_buffer[1]


def test_index_keys_drop_what_has_no_slot() -> None:
    leaf = make()
    keys, scales = keys_of([9, 8, 7])
    for dtype in (torch.int32, torch.int64):
        leaf.set_index_k_scale_buffer(0, torch.tensor([0, 65, -1], dtype=dtype), keys, scales)
        assert index_bytes(leaf) == pages_with({65: 8})
    column = scales.view(3, 1)
    leaf.set_index_k_scale_buffer(1, torch.tensor([0, 65, -1]), keys.view(torch.uint8), column)
    assert index_bytes(leaf, 1) == pages_with({65: 8})


@pytest.mark.parametrize(
    ("tgt", "src"),
    [
        ([130], [70]),
        ([2], [1]),
        ([64, 65, 66], [65, 66, 67]),
        ([65, 66, 67], [64, 65, 66]),
        ([0, -1], [70, 71]),
        ([], []),
    ],
)
def test_moves_take_rows_and_index_keys_along(tgt: list[int], src: list[int]) -> None:
    """sglang#31215: the first dimension of the index buffer is pages, not tokens."""
    for changes in ({}, PACKED):
        leaf = filled(**changes)
        rows = torch.randn(191, 1, 576).bfloat16()
        leaf.set_kv_buffer(Layer(1), torch.arange(1, 192), rows, None)
        before, tokens = leaf.kv_buffer[1].clone(), {t: t for t in range(1, 192)}
        leaf.move_kv_cache(torch.tensor(tgt, dtype=torch.int64), torch.tensor(src).long())
        for t, s in zip(tgt, src, strict=True):
            if t >= 1:
                tokens[t] = s
        after = torch.stack([before[0], *(before[tokens[t]] for t in range(1, 192))])
        assert torch.equal(leaf.kv_buffer[1], after)
        assert index_bytes(leaf) == index_bytes(leaf, 1) == pages_with(tokens)


def test_a_batch_of_index_keys() -> None:
    leaf = filled(size=192)
    keys, scales = leaf.get_index_k_scale_buffer(
        1, torch.tensor([2, 65]), torch.tensor([[1, -1], [2, 1]]), 67, 65
    )
    slots = [64, 65, *range(128, 192), 64]
    wanted, wanted_scales = keys_of(slots)
    assert (keys.shape, scales.shape) == ((67, 128), (67, 4))
    assert torch.equal(keys, wanted.view(torch.uint8))
    assert torch.equal(scales.view(torch.float32)[:, 0], wanted_scales)


def test_host_copies_are_bit_exact_and_by_token() -> None:
    """sglang#38212, #37534: index keys come along, and 656 bytes a row."""
    leaf = make(**PACKED, size=256)
    generator = torch.Generator().manual_seed(1)
    for buffer in (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer):
        buffer[1:] = torch.randint(0, 256, buffer[1:].shape, generator=generator)
    old = [b.clone() for b in (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer)]
    pages = torch.cat([torch.arange(128, 192), torch.arange(64, 128)])
    copy = leaf.get_cpu_copy(pages, mamba_indices=None, req_pool_index=0)
    for buffer in (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer):
        buffer.zero_()
    to = torch.cat([torch.arange(64, 128), torch.arange(192, 256)])
    leaf.load_cpu_copy(copy, to, mamba_indices=None, req_pool_index=0)
    for was, buffer in zip(old, (*leaf.kv_buffer, *leaf.index_k_with_scale_buffer), strict=True):
        span = 64 if buffer.dim() == 3 else 1
        expected = torch.zeros_like(buffer)
        expected[span : 2 * span] = was[2 * span : 3 * span]
        expected[3 * span : 4 * span] = was[span : 2 * span]
        assert torch.equal(buffer, expected)


def test_a_copied_token_changes_no_neighbour() -> None:
    leaf = filled()
    leaf.load_cpu_copy(leaf.get_cpu_copy(torch.tensor([70, 3])), torch.tensor([130, 0]))
    tokens = {t: t for t in range(1, 192)} | {130: 70}
    assert index_bytes(leaf) == pages_with(tokens)
    copy = leaf.get_cpu_copy(torch.tensor([1]))
    other = make(skip_topk_layers=[False, True])
    with pytest.raises(ValueError, match="index keys of 2 layers, 1 layers here"):
        other.load_cpu_copy(copy, torch.tensor([2]))
    assert not other.kv_buffer[0].any()


def test_layers_that_reuse_a_choice_own_no_index_pages() -> None:
    leaf = filled(layer_num=3, start_layer=6, skip_topk_layers=[False, True, False])
    assert leaf.get_index_k_with_scale_buffer(7).shape == (0, 8448)
    pointers, lengths, items = leaf.get_state_buf_infos()
    assert (lengths, items) == ([3 * 8448, 0, 3 * 8448], [8448, 0, 8448])
    assert pointers[0] == leaf.index_k_with_scale_buffer[0].data_ptr()
    assert leaf.buffer_regions()[1].layer_ids == (6, 8)
    assert len(leaf.get_contiguous_buf_infos()[0]) == 3
    assert leaf.get_kv_size_bytes() == 3 * 192 * 1152 + 2 * 3 * 8448
    with pytest.raises(ValueError, match="layer_id=7 has no index keys"):
        leaf.set_index_k_scale_buffer(7, torch.tensor([1]), *keys_of([1]))
    with pytest.raises(ValueError, match="layer_id=7 has no index keys"):
        leaf.get_index_k_scale_buffer(7, torch.tensor([1]), torch.tensor([[1]]), 1, 1)
    leaf.move_kv_cache(torch.tensor([2]), torch.tensor([1]))
    leaf.load_cpu_copy(leaf.get_cpu_copy(torch.tensor([2])), torch.tensor([3]))
    assert index_bytes(leaf, 8)[0][3 * 128] == 1
    assert validate(leaf).get_state_buf_infos()[2] == items


def test_no_layer_with_index_keys() -> None:
    leaf = make(skip_topk_layers=[True, True])
    assert len(leaf.buffer_regions()) == 1
    assert leaf.get_state_buf_infos()[2] == [0, 0]
    empty = make(layer_num=0)
    assert (empty.get_state_buf_infos(), empty.buffer_regions()) == (([], [], []), ())


def test_index_doors_wait_for_their_layer() -> None:
    """A composite of sglang's reads index keys before they are loaded; a leaf of ours does not."""
    leaf, waits = filled(), Waits()
    leaf.register_layer_transfer_counter(waits)
    leaf.get_index_k_with_scale_buffer(1)
    leaf.get_index_k_scale_buffer(0, torch.tensor([1]), torch.tensor([[1]]), 1, 1)
    assert waits.seen == [1, 0]


def test_a_refused_index_write_changes_nothing() -> None:
    leaf, (keys, scales) = make(), keys_of([1, 2])
    loc = torch.tensor([1, 2])
    refused: list[tuple[Tensor, Tensor, Tensor]] = [
        (loc, keys[:, :64], scales),
        (loc, keys.float(), scales),
        (loc, keys, scales.double()),
        (loc, keys, scales[:1]),
        (loc, keys, scales.view(1, 2)),
    ]
    for call in refused:
        with pytest.raises(ValueError, match="nothing was written"):
            leaf.set_index_k_scale_buffer(0, *call)
    with pytest.raises(IndexError, match="location 192 is past the last row 191"):
        leaf.set_index_k_scale_buffer(0, torch.tensor([1, 192]), keys, scales)
    with pytest.raises(ValueError, match="layer_id=2 is not in this pool"):
        leaf.set_index_k_scale_buffer(2, loc, keys, scales)
    assert not leaf.index_k_with_scale_buffer[0].any()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"index_dtype": torch.float8_e5m2}, "index_dtype=torch.float8_e5m2: index keys are torch"),
        ({"index_layout": "preshuffled", "page_size": 8, "size": 16}, "8 keys of index_head_dim="),
        (
            {"index_layout": "preshuffled", "index_head_dim": 24},
            "index_head_dim=24 on a page: both",
        ),
    ],
)
def test_index_pages_that_cannot_be_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make(**changes)


def test_keys_of_another_fp8_are_refused_and_bytes_are_taken() -> None:
    leaf = make(index_dtype=torch.float8_e4m3fnuz)
    keys, scales = keys_of([9])
    assert keys.dtype == torch.float8_e4m3fn
    with pytest.raises(ValueError, match=r"index_k is torch.float8_e4m3fn .* must be .*e4m3fnuz"):
        leaf.set_index_k_scale_buffer(0, torch.tensor([65]), keys, scales)
    assert index_bytes(leaf) == pages_with({})
    for given in (keys.view(torch.float8_e4m3fnuz), keys.view(torch.uint8)):
        leaf.set_index_k_scale_buffer(0, torch.tensor([65]), given, scales)
        assert index_bytes(leaf) == pages_with({65: 9})
    elements = [r.field("index_key").element for r in leaf.buffer_regions()[1:]]
    assert elements == ["float8_e4m3fnuz"]
