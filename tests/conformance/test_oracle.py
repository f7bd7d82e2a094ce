"""The oracle finds bytes where they were put, by addresses counted by hand."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch

from kvproto.conformance.oracle import Oracle, oracle_for, peek, poke
from kvproto.protocols import DSALeafRequest
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

PLACE: dict[str, Any] = {"device": "cpu", "layer_num": 2, "start_layer": 3}


def packed() -> DSALeaf:
    request = DSALeafRequest(
        size=128,
        page_size=64,
        dtype=torch.float8_e4m3fn,
        quant_scheme="dsa_fp8_packed",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        index_head_dim=128,
        device="cpu",
        layer_num=2,
        start_layer=3,
    )
    return DSALeaf(**request.keywords())


def test_peek_sees_what_poke_wrote() -> None:
    memory = torch.zeros(8, dtype=torch.uint8)
    poke(memory.data_ptr() + 2, b"\x01\x02")
    assert memory.tolist() == [0, 0, 1, 2, 0, 0, 0, 0]
    assert peek(memory.data_ptr() + 1, 4) == b"\x00\x01\x02\x00"


def test_an_nhd_element() -> None:
    leaf = MHALeaf(size=8, page_size=4, dtype=torch.float32, head_num=2, head_dim=4, **PLACE)
    at = leaf.v_buffer[1].data_ptr() + (6 * 2 + 1) * 16 + 3 * 4  # slot 6, head 1, element 3
    poke(at, struct.pack("=f", 5.0))
    rows = oracle_for(leaf).rows("value", 4)
    assert rows.shape == (12, 2, 4)
    assert rows.nonzero().tolist() == [[6, 1, 3]]
    assert leaf.get_value_buffer(4)[6, 1, 3] == rows[6, 1, 3] == 5.0
    assert leaf.buffer_regions()[1].address(4, 1, 2, 1, 3) == at
    assert torch.equal(oracle_for(leaf).row("value", 4, 6), rows[6])


def test_both_parts_of_a_latent_row() -> None:
    wide: dict[str, Any] = {"kv_lora_rank": 4, "qk_rope_head_dim": 2}
    leaf = MLALeaf(size=8, page_size=4, dtype=torch.bfloat16, **wide, **PLACE)
    for element, bits in ((1, b"\x40\x40"), (5, b"\x80\xbf")):  # 3.0 and -1.0
        poke(leaf.kv_buffer[0].data_ptr() + 7 * 12 + 2 * element, bits)
    oracle = oracle_for(leaf)
    assert oracle.rows("key", 3)[7].tolist() == [[0, 3, 0, 0, 0, -1]]
    assert oracle.stored_bytes("key", 3)[7].tolist() == [0, 0, 0x40, 0x40, *[0] * 6, 0x80, 0xBF]
    latent, rope = leaf.get_mla_kv_buffer(Layer(3), torch.tensor([7]))
    assert (latent.tolist(), rope.tolist()) == ([[[0, 3, 0, 0]]], [[[0, -1]]])


@pytest.mark.parametrize("declared", [True, False])
def test_a_packed_row(declared: bool) -> None:
    leaf = packed()
    row = leaf.kv_buffer[1].data_ptr() + 100 * 656
    poke(row + 130, b"\x40")  # 2.0, element 2 of block 1
    poke(row + 512 + 4, struct.pack("=f", 1.5))  # the scale of block 1
    poke(row + 528 + 2 * 63, b"\x80\x3f")  # 1.0, the last of rope
    oracle = oracle_for(leaf) if declared else Oracle(leaf, None)
    rows = oracle.rows("key", 4)
    assert rows.shape == (192, 1, 576)
    assert rows.nonzero().tolist() == [[100, 0, 130], [100, 0, 575]]
    assert rows[100, 0, [130, 575]].tolist() == [3.0, 1.0]
    assert oracle.stored_bytes("key", 4)[100].tolist() == list(peek(row, 656))
    latent, rope = leaf.get_mla_kv_buffer(Layer(4), torch.tensor([100]))
    assert (latent[0, 0, 130].item(), rope[0, 0, 63].item()) == (3.0, 1.0)


@pytest.mark.parametrize("declared", [True, False])
def test_an_index_page(declared: bool) -> None:
    leaf = packed()
    page = leaf.index_k_with_scale_buffer[0].data_ptr() + 2 * 8448
    poke(page + 5 * 128 + 127, b"\x07")  # the last byte of key 5
    poke(page + 64 * 128 + 5 * 4, struct.pack("=f", 9.0))
    oracle = oracle_for(leaf) if declared else Oracle(leaf, None)
    keys, scales = oracle.index(3)
    assert (keys.shape, scales.shape) == ((192, 128), (192,))
    assert keys.nonzero().tolist() == [[133, 127]]
    assert scales.nonzero().tolist() == [[133]]
    assert (keys[133, 127].item(), scales[133].item()) == (7, 9.0)
    key, scale = oracle.index_at(3, 133)
    assert (key.tolist(), scale) == (keys[133].tolist(), 9.0)
    pages = torch.tensor([[2]])
    gathered, raw = leaf.get_index_k_scale_buffer(3, torch.tensor([6]), pages, 6, 6)
    assert gathered[5, 127] == 7
    assert raw[5].view(torch.float32).item() == 9.0


class Layer:
    def __init__(self, layer_id: int) -> None:
        self.layer_id = layer_id
