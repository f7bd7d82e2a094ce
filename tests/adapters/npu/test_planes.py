"""Where rows are in a plane: one run of bytes, in ND and in NZ order, on its own memory."""

from __future__ import annotations

import pytest
import torch

from kvproto.adapters.npu.memory import aligned_zeros
from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.planes import Plane, PlaneShape, misfit

CPU = torch.device("cpu")
LAYERS, PAGES, PAGE, HEADS, WIDTH, V_WIDTH = 3, 4, 16, 2, 32, 8


def leaf(layout: str = "paged_nhd") -> NPUMHALeaf:
    return NPUMHALeaf(
        size=(PAGES - 1) * PAGE,
        page_size=PAGE,
        dtype=torch.bfloat16,
        head_num=HEADS,
        head_dim=WIDTH,
        v_head_dim=V_WIDTH,
        layer_num=LAYERS,
        start_layer=5,
        device="cpu",
        kv_cache_layout="nhd" if layout == "nhd" else None,
    )


@pytest.mark.parametrize(
    ("dtype", "c0"), [(torch.bfloat16, 16), (torch.float16, 16), (torch.int8, 32)]
)
def test_nz_keeps_blocks_of_32_bytes_of_a_page_s_tokens_together(
    dtype: torch.dtype, c0: int
) -> None:
    shape = PlaneShape(LAYERS, PAGES, PAGE, 1, 64, "nz")
    assert shape.layer(dtype.itemsize) == (PAGES, 64 // c0, PAGE, c0)
    # As an operator that reads NZ finds token `t` of page `p`: block `b`, token, element.
    plane = torch.zeros(shape.layer(dtype.itemsize), dtype=dtype)
    store = Plane(plane.unsqueeze(0), dtype, shape).by_layer()[0].store
    row = torch.arange(1, 65).to(dtype)
    store.store(torch.tensor([2 * PAGE + 3]), row.view(1, 1, 64))
    assert torch.equal(plane[2, :, 3, :], row.view(64 // c0, c0))
    assert plane.count_nonzero() == 64
    assert torch.equal(store.gather(torch.tensor([2 * PAGE + 3])).flatten(), row)


def test_rows_that_are_no_whole_blocks_do_not_fit_in_nz() -> None:
    assert not misfit("nz", (512, 64), 2)
    assert "32 elements of 1 bytes together: rows of [16]" in misfit("nz", (512, 16), 1)
    assert not misfit("nd", (7,), 2)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32])
def test_memory_starts_where_it_is_aligned_and_owns_the_bytes_to_the_next_boundary(
    dtype: torch.dtype,
) -> None:
    alignment = 1 << 12
    plane = aligned_zeros((3, 5, 7), dtype, CPU, alignment)
    assert plane.shape == (3, 5, 7)
    assert plane.is_contiguous()
    assert not plane.any()
    start = plane.data_ptr()
    assert start % alignment == 0
    length = -(-plane.nbytes // alignment) * alignment
    storage = plane.untyped_storage()
    assert storage.data_ptr() <= start
    assert start + length <= storage.data_ptr() + storage.nbytes()
    assert storage.nbytes() < plane.nbytes + 2 * alignment + 1


def test_keys_and_values_are_each_one_run_of_bytes() -> None:
    made = leaf()
    keys, values = made.get_hicache_transfer_buffers()
    assert keys.shape == (LAYERS, PAGES, PAGE, HEADS, WIDTH)
    assert values.shape == (LAYERS, PAGES, PAGE, HEADS, V_WIDTH)
    for plane, by_layer in ((keys, made.k_buffer), (values, made.v_buffer)):
        assert plane.is_contiguous()
        assert [layer.data_ptr() for layer in by_layer] == [
            plane.data_ptr() + local * plane[0].nbytes for local in range(LAYERS)
        ]


def test_fused_attention_is_given_a_layer_by_slot() -> None:
    made = leaf("nhd")
    k, v = torch.ones(1, HEADS, WIDTH), torch.ones(1, HEADS, V_WIDTH)
    made.set_kv_buffer(None, torch.tensor([PAGE + 2]), k, v, layer_id_override=6)
    keys, values = made.get_fia_kv_buffer(6)
    assert keys.shape == (PAGES * PAGE, 1, HEADS, WIDTH)
    assert values.shape == (PAGES * PAGE, 1, HEADS, V_WIDTH)
    assert keys[PAGE + 2].all()
    assert values[PAGE + 2].all()
    assert keys.count_nonzero() == HEADS * WIDTH
    assert keys.data_ptr() == made.k_buffer[1].data_ptr()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_sequences_are_gathered_in_order_and_tables_tails_are_not_read(dtype: torch.dtype) -> None:
    made = NPUMHALeaf(3 * PAGE, PAGE, dtype, HEADS, WIDTH, 1, "cpu", v_head_dim=V_WIDTH)
    slots = torch.arange(1, (PAGES) * PAGE)
    keys = (slots.view(-1, 1, 1) % 13 + 1).expand(-1, HEADS, WIDTH).to(torch.bfloat16)
    made.set_kv_buffer(None, slots, keys, keys[..., :V_WIDTH], layer_id_override=0)
    table, lengths = torch.tensor([[3, 1, 9999], [2, -5, 0]]), torch.tensor([PAGE + 2, 3])
    k, v = made.gather_kv_buffer(0, table, lengths, PAGE + 5)
    wanted = [*range(3 * PAGE, 4 * PAGE), PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 1, 2 * PAGE + 2]
    assert k.dtype == v.dtype == dtype
    assert torch.equal(k.to(torch.bfloat16), keys[[slot - 1 for slot in wanted]])
    assert v.shape == (PAGE + 5, HEADS, V_WIDTH)
    assert v[:, 0, 0].float().tolist() == [slot % 13 + 1 for slot in wanted]


def test_a_sum_that_is_not_that_of_the_lengths_and_a_page_past_the_last_are_refused() -> None:
    made = leaf()
    table, lengths = torch.tensor([[1, 2]]), torch.tensor([PAGE + 2])
    for wrong in (PAGE + 1, PAGE + 3, 0):
        with pytest.raises(ValueError, match=f"seq_len_sum={wrong}: seq_lens sum to {PAGE + 2}"):
            made.gather_kv_buffer(5, table, lengths, wrong)
    with pytest.raises(IndexError):
        made.gather_kv_buffer(5, table + PAGES, lengths, PAGE + 2)
    with pytest.raises(ValueError, match="seq_len_sum=3: seq_lens sum to 0"):
        made.gather_kv_buffer(5, table[:0], lengths[:0], 3)
