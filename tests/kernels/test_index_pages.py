"""Index keys and scales in pages, against a plain-Python model, byte for byte."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvproto.kernels import (
    gather_index_keys,
    index_page_bytes,
    load_index_keys,
    move_index_key_sets,
    move_index_keys,
    store_index_keys,
    store_quantised_index_keys,
)
from tests.kernels.latent_oracle import index_page

pytestmark = pytest.mark.usefixtures("host_or_device")

P, D = 64, 128


def token(value: int) -> tuple[bytes, float]:
    return bytes([value % 251]) * D, float(value)


def tensors(values: list[int]) -> tuple[Tensor, Tensor]:
    keys = torch.tensor([v % 251 for v in values], dtype=torch.uint8).view(-1, 1).expand(-1, D)
    scales = torch.tensor([float(v) for v in values]).view(-1, 1).view(torch.uint8)
    return keys, scales


def pages_of(count: int, tokens: dict[int, int]) -> list[bytes]:
    """The pages in which slot `s` holds the key and scale of `tokens[s]`."""
    return [
        index_page({s - page * P: token(v) for s, v in tokens.items() if s // P == page})
        for page in range(count)
    ]


def bytes_of(pages: Tensor) -> list[bytes]:
    return [page.numpy().tobytes() for page in pages]


def filled(count: int = 3) -> tuple[Tensor, dict[int, int]]:
    pages = torch.zeros(count, 8448, dtype=torch.uint8)
    tokens = {slot: slot for slot in range(1, count * P)}
    store_index_keys(pages, torch.tensor(list(tokens)), *tensors(list(tokens.values())))
    assert bytes_of(pages) == pages_of(count, tokens)
    return pages, tokens


def test_a_page_is_keys_then_scales() -> None:
    assert index_page_bytes(64, 128) == 8448
    pages, _ = filled()
    page = bytes_of(pages)[2]
    assert page[256:384] == bytes([130]) * 128
    assert page[8192 + 8 : 8192 + 12] == struct.pack("<f", 130.0)


@pytest.mark.parametrize(
    ("tgt", "src"),
    [
        ([130], [70]),
        ([2], [1]),
        ([64, 65, 66], [65, 66, 67]),
        ([65, 66, 67], [64, 65, 66]),
        ([0, -1], [70, 71]),
        ([5, 6], [0, -1]),
        ([], []),
    ],
)
def test_moves_are_by_token_and_read_first(tgt: list[int], src: list[int]) -> None:
    """A copy of whole rows of the buffer would replace pages (sglang#31215)."""
    for dtype in (torch.int32, torch.int64):
        pages, tokens = filled()
        before = dict(tokens)
        tokens |= {t: before.get(s, 0) for t, s in zip(tgt, src, strict=True) if t >= 1}
        move_index_keys(pages, torch.tensor(tgt, dtype=dtype), torch.tensor(src, dtype=dtype), D)
        assert bytes_of(pages) == pages_of(3, tokens)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-3, 127), max_size=12), st.sampled_from((torch.int32, torch.int64)))
def test_stores_follow_the_model(locations: list[int], dtype: torch.dtype) -> None:
    pages = torch.zeros(2, 8448, dtype=torch.uint8)
    values = list(range(1, len(locations) + 1))
    store_index_keys(pages, torch.tensor(locations, dtype=dtype), *tensors(values))
    keys, scales = load_index_keys(pages, torch.arange(128), D)
    for slot in range(128):
        written = [v for at, v in zip(locations, values, strict=True) if at == slot >= 1] or [0]
        scale = struct.unpack("<f", scales[slot].numpy().tobytes())[0]
        assert scale in written
        assert keys[slot].tolist() == [int(scale) % 251] * D


@pytest.mark.parametrize(("page", "width"), [(1, 128), (16, 128), (64, 64), (4, 6), (3, 5)])
def test_any_page_size_and_width(page: int, width: int) -> None:
    pages = torch.zeros(4, index_page_bytes(page, width), dtype=torch.uint8)
    slots = torch.arange(1, 4 * page)
    keys = slots.to(torch.uint8).view(-1, 1).expand(-1, width)
    scales = slots.float().view(-1, 1).view(torch.uint8)
    store_index_keys(pages, slots, keys, scales)
    expected = [
        index_page(
            {
                s - p * page: (bytes([s]) * width, float(s))
                for s in range(max(1, p * page), (p + 1) * page)
            },
            page,
            width,
        )
        for p in range(4)
    ]
    assert bytes_of(pages) == expected
    assert torch.equal(load_index_keys(pages, slots, width)[0], keys)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_batch_is_gathered_request_after_request(dtype: torch.dtype) -> None:
    pages, _ = filled(4)
    lens = torch.tensor([3, 0, 66], dtype=dtype)
    tables = torch.tensor([[2, -1], [-1, -1], [3, 1]], dtype=dtype)
    keys, scales = gather_index_keys(pages, lens, tables, 69, P, D)
    slots = [128, 129, 130, *range(192, 256), 64, 65]
    wanted_keys, wanted_scales = tensors(slots)
    assert torch.equal(keys, wanted_keys)
    assert torch.equal(scales, wanted_scales)


def test_an_empty_batch_is_empty() -> None:
    pages, _ = filled(1)
    none = torch.empty(0, dtype=torch.int64)
    for lens, tables in ((none, none.view(0, 0)), (torch.tensor([0]), torch.tensor([[-1]]))):
        keys, scales = gather_index_keys(pages, lens, tables, 0, P, D)
        assert (keys.shape, scales.shape) == ((0, D), (0, 4))


def test_pages_of_another_number_of_keys_are_refused() -> None:
    pages, _ = filled(1)
    one = torch.tensor([1])
    with pytest.raises(ValueError, match=r"8448 bytes have 64 keys .*, not index_page_size=32"):
        gather_index_keys(pages, one, one.view(1, 1), 1, 32, D)


def test_pages_past_two_gib_are_reached(tmp_path: object) -> None:
    """Page 254201 begins past 2^31 bytes; an int32 slot times its stride would wrap."""
    page = 254201
    path = f"{tmp_path}/pool"
    count = page + 1
    pages = torch.from_file(path, shared=True, size=count * 8448, dtype=torch.uint8)
    slot = torch.tensor([page * P + 5], dtype=torch.int32)
    store_index_keys(pages.view(count, 8448), slot, *tensors([77]))
    keys, scales = load_index_keys(pages.view(count, 8448), slot, D)
    assert torch.equal(keys, tensors([77])[0])
    assert torch.equal(scales, tensors([77])[1])
    with open(path, "rb") as file:
        file.seek(page * 8448)
        assert page * 8448 > 2**31
        assert file.read(8448) == index_page({5: token(77)})


def tiled_pages(keys: Tensor, scales: Tensor, size: int) -> Tensor:
    """Pages of `size` keys, `[16-tiles of keys, 16-tiles of bytes, 16, 16]`, then the scales."""
    n, width = keys.shape
    tiles = keys.view(n // size, size // 16, 16, width // 16, 16).transpose(2, 3)
    return torch.cat([tiles.reshape(n // size, -1), scales.view(n // size, -1)], dim=1)


@pytest.mark.parametrize(("size", "width"), [(64, 128), (16, 16), (32, 48)])
def test_preshuffled_keys_lie_in_tiles(size: int, width: int) -> None:
    made = torch.Generator().manual_seed(size)
    rows = torch.randint(0, 256, (3 * size, width + 4), generator=made).to(torch.uint8)
    rows[0] = 0
    keys, scales = rows[:, :width], rows[:, width:]
    pages = torch.zeros(3, index_page_bytes(size, width), dtype=torch.uint8)
    order = torch.randperm(3 * size, generator=made)
    store_index_keys(pages, order, keys[order], scales[order], "preshuffled")
    assert torch.equal(pages, tiled_pages(keys.contiguous(), scales.contiguous(), size))
    got = load_index_keys(pages, order, width, "preshuffled")
    assert torch.equal(torch.cat(got, 1), rows[order])
    lens, tables = torch.tensor([size + 3, 5]), torch.tensor([[2, 1], [1, -1]])
    slots = [*range(2 * size, 3 * size), *range(size, size + 3), *range(size, size + 5)]
    gathered = gather_index_keys(pages, lens, tables, size + 8, size, width, "preshuffled")
    assert torch.equal(torch.cat(gathered, 1), rows[slots])
    move_index_keys(pages, order[:9], order[5:14], width, "preshuffled")
    moved = rows.clone()
    moved[order[:9]] = rows[order[5:14]]
    moved[0] = 0
    tiled = tiled_pages(moved[:, :width].contiguous(), moved[:, width:].contiguous(), size)
    assert torch.equal(pages, tiled)


def test_preshuffled_pages_are_whole_tiles() -> None:
    pages, one = torch.zeros(2, index_page_bytes(8, 16), dtype=torch.uint8), torch.tensor([1])
    keys, scales = torch.ones(1, 16, dtype=torch.uint8), torch.ones(1, 4, dtype=torch.uint8)
    message = "8 keys of 16 bytes on a page: preshuffled, both must be multiples of 16"
    with pytest.raises(ValueError, match=message):
        store_index_keys(pages, one, keys, scales, "preshuffled")
    with pytest.raises(ValueError, match=message):
        gather_index_keys(pages, one, one.view(1, 1), 1, 8, 16, "preshuffled")
    assert not pages.any()


@pytest.mark.parametrize("n", [1, 5, 300])
def test_keys_are_moved_in_every_layer(n: int) -> None:
    """More pairs than a kernel holds in registers too."""
    made = torch.Generator().manual_seed(n)
    layers = [torch.randint(0, 256, (12, 8448), generator=made).to(torch.uint8) for _ in "abc"]
    expected = [pages.clone() for pages in layers]
    targets, sources = torch.arange(1, n + 1), torch.arange(n, 2 * n)
    for pages in expected:
        store_index_keys(pages, targets, *load_index_keys(pages, sources, D))
    move_index_key_sets(layers, targets, sources, D)
    assert all(map(torch.equal, layers, expected))
    with pytest.raises(ValueError, match="must be as many"):
        move_index_key_sets(layers, targets, sources[1:], D)


def test_keys_of_any_strides() -> None:
    pages, rows = torch.zeros(2, 8448, dtype=torch.uint8), torch.arange(2 * 264).view(2, 264)
    keys, scales = rows[:, ::2][:, :128].to(torch.uint8), rows.T[:4].T.to(torch.uint8)
    strided = keys.T.contiguous().T, scales.T.contiguous().T
    store_index_keys(pages, torch.tensor([70, 3]), *strided)
    assert all(map(torch.equal, load_index_keys(pages, torch.tensor([70, 3]), D), (keys, scales)))


@pytest.mark.parametrize("round_scale", [False, True])
@pytest.mark.parametrize("width", [128, 96, 5])
def test_keys_are_quantised_as_they_are_stored(width: int, round_scale: bool) -> None:
    """Against float64; zeros, tiny and huge keys, infinity saturated and NaN among them."""
    made = torch.Generator().manual_seed(width)
    rows = torch.randn(12, width, generator=made) * 2.0 ** torch.arange(-14, 10, 2).unsqueeze(1)
    rows[2], rows[3], rows[4, 1] = 0.0, 1e-30, torch.nan
    pages = torch.zeros(2, index_page_bytes(16, width), dtype=torch.uint8)
    slots = torch.arange(3, 15)
    store_quantised_index_keys(pages, slots, rows.bfloat16(), round_scale=round_scale)
    keys, raw = load_index_keys(pages, slots, width)
    scales = raw.view(torch.float32).double()
    exact = rows.bfloat16().double()
    assert scales[4].isnan()
    assert keys[4].view(torch.float8_e4m3fn).float().isnan().all()
    kept = torch.arange(12) != 4
    peak = exact.abs().amax(1, keepdim=True).clamp(min=1e-4) / 448
    wanted = torch.exp2(torch.ceil(torch.log2(peak))) if round_scale else peak
    torch.testing.assert_close(scales[kept], wanted[kept], rtol=2e-7, atol=0.0)
    read = keys.view(torch.float8_e4m3fn).double() * scales
    step = torch.maximum(exact.abs() / 16, scales * 2.0**-10) * (1 + 1e-6)
    assert ((read - exact).abs() <= step)[kept].all()
