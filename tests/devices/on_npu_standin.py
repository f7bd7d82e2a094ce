"""The stand-in for torch_npu: operators do what the vendor documents, and refuse the rest."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

torch_npu: Any = import_module("torch_npu")

NPU = torch.device("npu:0")
BLOCKS, SIZE, HEADS, WIDTH, V_WIDTH = 3, 4, 2, 32, 64


def counted(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    """Bytes that differ from place to place, on the device."""
    count = int(torch.Size(shape).numel())
    return (torch.arange(1, count + 1) % 120).view(shape).to(dtype).to(NPU)


def ints(*values: int, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=NPU)


def test_what_it_is() -> None:
    assert torch_npu.__version__ == "2.14.0"
    assert "stand-in" in torch_npu.__doc__
    assert torch_npu.npu is torch.get_device_module("npu")
    assert torch_npu._npu_reshape_and_cache is torch.ops.atb._npu_reshape_and_cache
    with pytest.raises(AttributeError, match="the stand-in for torch_npu has no 'npu_rms_norm'"):
        _ = torch_npu.npu_rms_norm


def test_operators_have_the_schemas_of_the_data() -> None:
    lines = (Path(torch_npu.__file__).parent / "schemas.txt").read_text().splitlines()
    expected = {torch._C.parse_schema(line) for line in lines if not line.startswith("#")}

    found = {getattr(torch_npu, schema.name.partition("::")[2]).default for schema in expected}

    assert {str(operator._schema) for operator in found} == {str(schema) for schema in expected}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_scatter_nd_updates_rows(dtype: torch.dtype, index: torch.dtype) -> None:
    rows, at = counted(2, 3, dtype=dtype), [[3], [1]]
    expected = torch.zeros(5, 3, dtype=dtype)
    for (i,), row in zip(at, rows.cpu(), strict=True):
        expected[i] = row

    table = torch.zeros(5, 3, dtype=dtype, device=NPU)
    returned = torch_npu.npu_scatter_nd_update_(table, torch.tensor(at, dtype=index).to(NPU), rows)

    assert table.cpu().equal(expected)
    assert returned.data_ptr() == table.data_ptr()


def test_scatter_nd_indexes_several_axes_of_a_view() -> None:
    whole = torch.zeros(4, 6, 2, device=NPU)
    table, at = whole[:, ::2], torch.tensor([[[0, 1], [3, 2]]], device=NPU)

    torch_npu.npu_scatter_nd_update_(table, at, counted(1, 2, 2, dtype=torch.float32))

    expected = torch.zeros(4, 6, 2)
    expected[0, 2] = torch.tensor([1.0, 2.0])
    expected[3, 4] = torch.tensor([3.0, 4.0])
    assert whole.cpu().equal(expected)


def cache(width: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.zeros(BLOCKS, SIZE, HEADS, width, dtype=dtype, device=NPU)


def tiles(width: int, dtype: torch.dtype = torch.float16) -> Tensor:
    c = 32 // dtype.itemsize
    return torch.zeros(BLOCKS, HEADS * width // c, SIZE, c, dtype=dtype, device=NPU)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("mode", ["Norm", None, "PA_NZ", "default"])
def test_rows_go_to_slots_of_blocks(dtype: torch.dtype, mode: str | None) -> None:
    """In NZ, element `(head, i)` of a row is in tile `(head * width + i) // c` of its block."""
    in_tiles = mode in ("PA_NZ", "default")
    key, value = (counted(3, HEADS, w, dtype=dtype) for w in (WIDTH, V_WIDTH))
    slots, make = [9, -1, 2], tiles if in_tiles else cache
    caches = (make(WIDTH, dtype), make(V_WIDTH, dtype))
    options = {} if mode == "default" else {"cache_mode": mode}

    torch_npu.npu_scatter_pa_kv_cache(key, value, *caches, ints(*slots), **options)

    for rows, found in zip((key.cpu(), value.cpu()), caches, strict=True):
        expected = torch.zeros_like(found, device="cpu")
        for slot, row in zip(slots, rows, strict=True):
            if slot < 0:
                continue
            for i, element in enumerate(row.flatten()):
                c = found.shape[3]
                spot = (
                    (i // c, slot % SIZE, i % c)
                    if in_tiles
                    else (slot % SIZE, *divmod(i, row.shape[1]))
                )
                expected[(slot // SIZE, *spot)] = element
        assert found.cpu().equal(expected)


def test_reshape_and_cache_stores_rows() -> None:
    caches, key, value = (cache(WIDTH), cache(V_WIDTH)), counted(2, HEADS, WIDTH), None
    value = counted(2, HEADS, V_WIDTH)

    torch_npu._npu_reshape_and_cache(
        key=key, value=value, key_cache=caches[0], value_cache=caches[1], slot_indices=ints(-1, 6)
    )

    for rows, found in zip((key, value), caches, strict=True):
        assert found[1, 2].equal(rows[1])
        assert int(found.count_nonzero()) == int(rows[1].count_nonzero())


@pytest.mark.parametrize("running", [False, True])
def test_rows_come_back_by_block_table(running: bool) -> None:
    key_cache, value_cache = (counted(BLOCKS, SIZE, HEADS, w) for w in (WIDTH, V_WIDTH))
    table = torch.tensor([[0, 2, 1], [2, 0, 0]], dtype=torch.int32, device=NPU)
    lengths = ints(0, 5, 7) if running else ints(5, 2)
    out = torch.zeros(7, HEADS, WIDTH, dtype=torch.float16, device=NPU)
    v_out = torch.zeros(7, HEADS, V_WIDTH, dtype=torch.float16, device=NPU)

    torch_npu.npu_gather_pa_kv_cache(
        key_cache, value_cache, table, lengths, out, v_out,
        seq_offset=ints(SIZE, 0), is_seq_lens_cumsum=running,
    )  # fmt: skip

    places = [(2, 0), (2, 1), (2, 2), (2, 3), (1, 0), (2, 0), (2, 1)]
    for place, row, v_row in zip(places, out, v_out, strict=True):
        assert row.equal(key_cache[place])
        assert v_row.equal(value_cache[place])


def test_quantization_by_token() -> None:
    rows = torch.tensor([[1.0, -4.0], [0.0, 0.0]], dtype=torch.bfloat16, device=NPU)

    to_int8, scale = torch_npu.npu_dynamic_quant(rows)
    to_fp8, fp8_scale = torch_npu.npu_dynamic_quant(rows, dst_type=torch.float8_e4m3fn)

    assert to_int8.tolist() == [[32, -127], [0, 0]]
    assert scale.cpu().equal(torch.tensor([4 / 127, 0.0]))
    assert to_fp8.float().tolist() == [[112.0, -448.0], [0.0, 0.0]]
    assert fp8_scale.cpu().equal(torch.tensor([4 / 448, 0.0]))


def test_formats() -> None:
    tensor = counted(2, 2)

    assert torch_npu.get_npu_format(tensor) == 2
    assert torch_npu.npu_format_cast(tensor, 2).data_ptr() == tensor.data_ptr()


def nd_update(
    input: Tensor | None = None, indices: Tensor | None = None, updates: Tensor | None = None
) -> None:
    torch_npu.npu_scatter_nd_update_(
        torch.zeros(5, 3, device=NPU) if input is None else input,
        ints(1, 2).view(-1, 1) if indices is None else indices,
        torch.ones(2, 3, device=NPU) if updates is None else updates,
    )


def scatter(operator: str = "npu_scatter_pa_kv_cache", **changed: Any) -> None:
    """A legal call with some arguments changed."""
    nd = changed.get("cache_mode", "Norm") != "PA_NZ"
    make = cache if nd else tiles
    arguments: dict[str, Any] = {
        "key": counted(2, HEADS, WIDTH),
        "value": counted(2, HEADS, V_WIDTH),
        "key_cache": make(WIDTH),
        "value_cache": make(V_WIDTH),
        "slot_mapping": ints(1, 2),
        "cache_mode": "Norm",
    }
    if operator == "_npu_reshape_and_cache":
        del arguments["cache_mode"]
        arguments["slot_indices"] = arguments.pop("slot_mapping")
    getattr(torch_npu, operator)(**(arguments | changed))


def gather(**changed: Any) -> None:
    arguments: dict[str, Any] = {
        "key_cache": cache(WIDTH),
        "value_cache": cache(V_WIDTH),
        "block_tables": ints(0, 1).view(1, 2),
        "seq_lens": ints(5),
        "key": torch.empty(5, HEADS, WIDTH, dtype=torch.float16, device=NPU),
        "value": torch.empty(5, HEADS, V_WIDTH, dtype=torch.float16, device=NPU),
    }
    torch_npu.npu_gather_pa_kv_cache(**(arguments | changed))


def in_uint8(call: Callable[..., None], **extra: Any) -> None:
    """A legal call but for its rows and caches, which are of bytes."""
    of = {"key": (2, HEADS, WIDTH), "value": (2, HEADS, V_WIDTH)}
    rows = {name: torch.zeros(shape, dtype=torch.uint8, device=NPU) for name, shape in of.items()}
    caches = {"key_cache": WIDTH, "value_cache": V_WIDTH}
    call(**rows, **{name: cache(w, torch.uint8) for name, w in caches.items()}, **extra)


FP8, U8 = torch.float8_e4m3fn, torch.uint8
ZEROS = torch.zeros(5, 3, device=NPU)
REFUSED: dict[str, Callable[[], None]] = {
    r"npu_scatter_nd_update_: input is torch\.uint8; documented: .*int8": (
        lambda: nd_update(ZEROS.to(U8), updates=ZEROS[:2].to(U8))
    ),
    r"npu_scatter_nd_update_: input is torch\.float8_e4m3fn; documented": (
        lambda: nd_update(ZEROS.to(FP8), updates=ZEROS[:2].to(FP8))
    ),
    r"updates is torch\.float16; documented: the dtype of input, torch\.float32": (
        lambda: nd_update(updates=ZEROS[:2].half())
    ),
    r"indices\[\.\.\., 0\] is -1 to 2; documented: values 0 to 4": (
        lambda: nd_update(indices=ints(-1, 2).view(-1, 1))
    ),
    r"indices\[\.\.\., 0\] is 2 to 5; documented: values 0 to 4": (
        lambda: nd_update(indices=ints(5, 2).view(-1, 1))
    ),
    r"indices is of rank 1; documented: rank 2 to 8": lambda: nd_update(indices=ints(1, 2)),
    r"indices is torch\.int16; documented: torch\.int32, torch\.int64": (
        lambda: nd_update(indices=ints(1, 2, dtype=torch.int16).view(-1, 1))
    ),
    r"indices\.shape\[-1\] is 3; documented: at most 2, the rank of input": (
        lambda: nd_update(indices=torch.zeros(2, 3, dtype=torch.int32, device=NPU))
    ),
    r"updates is \(3, 3\); documented: \(2, 3\), indices\.shape": (
        lambda: nd_update(updates=ZEROS[:3])
    ),
    r"arguments is npu:0 and npu:1; documented: one device": (
        lambda: nd_update(updates=ZEROS[:2].to("npu:1"))
    ),
    r"npu_scatter_pa_kv_cache: key is torch\.uint8; documented: torch\.float16": (
        lambda: in_uint8(scatter)
    ),
    r"npu_scatter_pa_kv_cache: key_cache is \(3, 4, 2, 32\); documented: .*in NZ, c = 16": (
        lambda: scatter(cache_mode="PA_NZ", key_cache=cache(WIDTH))
    ),
    r"cache_mode is 'ND'; documented: 'Norm', None or 'PA_NZ', the default": (
        lambda: scatter(cache_mode="ND")
    ),
    r"slot_mapping is torch\.int16; documented": (
        lambda: scatter(slot_mapping=ints(1, 2, dtype=torch.int16))
    ),
    r"slot_mapping is 1 to 12; documented: values below 12": (
        lambda: scatter(slot_mapping=ints(12, 1))
    ),
    r"slot_mapping is \(3,\); documented: \(2,\), a slot for each row": (
        lambda: scatter(slot_mapping=ints(1, 2, 3))
    ),
    r"key is not contiguous; documented: contiguous": (
        lambda: scatter(key=counted(2, WIDTH, HEADS).transpose(1, 2))
    ),
    r"key is of rank 2; documented: rank 3": lambda: scatter(key=counted(2, HEADS * WIDTH)),
    r"value\.shape\[0\] is 3; documented: the rows of key": (
        lambda: scatter(value=counted(3, HEADS, V_WIDTH))
    ),
    r"seq_lens is given; documented: compression, which is not emulated": (
        lambda: scatter(seq_lens=ints(1))
    ),
    r"the width of key is 24 bytes; documented: whole 32 bytes in NZ": (
        lambda: scatter(cache_mode="PA_NZ", key=counted(2, HEADS, 12), key_cache=tiles(16))
    ),
    r"_npu_reshape_and_cache: slot_indices is torch\.int64; documented: torch\.int32": (
        lambda: scatter(
            "_npu_reshape_and_cache", slot_indices=ints(1, 2, dtype=torch.int64)
        )
    ),
    r"_npu_reshape_and_cache: slot_indices is 1 to 12; documented: values below 12": (
        lambda: scatter("_npu_reshape_and_cache", slot_indices=ints(12, 1))
    ),
    r"_npu_reshape_and_cache: key is torch\.uint8; documented": (
        lambda: in_uint8(lambda **g: scatter("_npu_reshape_and_cache", **g))
    ),
    r"npu_gather_pa_kv_cache: block_tables is 0 to 3; documented: values 0 to 2": (
        lambda: gather(block_tables=ints(0, 3).view(1, 2))
    ),
    r"block_tables is torch\.int64; documented: torch\.int32": (
        lambda: gather(block_tables=ints(0, 1, dtype=torch.int64).view(1, 2))
    ),
    r"key is \(5, 2, 32\); documented: \(6, 2, 32\), a row for each token": (
        lambda: gather(seq_lens=ints(6))
    ),
    r"block_tables is of 1 blocks after seq_offset; documented: 2 for 5 tokens": (
        lambda: gather(seq_offset=ints(SIZE))
    ),
    r"seq_lens\[0\] is 1; documented: 0 in a running sum": (
        lambda: gather(seq_lens=ints(1, 5), is_seq_lens_cumsum=True)
    ),
    r"npu_format_cast: acl_format is 29; only 2": (
        lambda: torch_npu.npu_format_cast(ZEROS, 29)
    ),
    r"npu_dynamic_quant: input is torch\.float32; documented": (
        lambda: torch_npu.npu_dynamic_quant(ZEROS)
    ),
    r"npu_dynamic_quant: dst_type is 0; documented": (
        lambda: torch_npu.npu_dynamic_quant(ZEROS.half(), dst_type=torch.uint8)
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        REFUSED[message]()


def test_a_refused_call_wrote_nothing() -> None:
    """Values are looked at after the keys could have been written: they are not."""
    into = cache(WIDTH)

    with pytest.raises(RuntimeError, match="value_cache"):
        scatter(key_cache=into, value_cache=cache(WIDTH))

    assert not into.any()


def test_the_legal_calls_are_legal() -> None:
    nd_update()
    scatter()
    scatter(cache_mode="PA_NZ")
    scatter("_npu_reshape_and_cache")
    gather()
