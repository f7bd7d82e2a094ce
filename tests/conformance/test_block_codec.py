"""The kit's own numbers of block-scaled rows, against torch's and, only then, the kernels'."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvproto.conformance.block_codec import BlockCodec, codec_of
from kvproto.kernels import dequantise_fp4, dequantise_mxfp8, quantise_fp4, quantise_mxfp8
from kvproto.protocols import BLOCK_SCALED, QuantScheme
from tests.kernels.torch_formats import torch_formats

BYTES = torch.arange(256).to(torch.uint8)
ONE = torch.ones(())


def rows(seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    spread = 2.0 ** torch.randint(-12, 9, (64, 128), generator=made)
    return (torch.randn(64, 128, generator=made) * spread).to(torch.bfloat16)


@pytest.mark.parametrize(("scheme", "name"), [("mxfp8", "mxfp8"), ("fp4_mx16", "mxfp4")])
def test_rows_become_the_bytes_that_torch_makes(scheme: QuantScheme, name: str) -> None:
    codec = codec_of(scheme)
    scales, elements = torch_formats().to_mxfp(rows(), codec.block, name)
    got = codec.encode(rows().float())
    assert torch.equal(got[0], elements.view(torch.uint8))
    assert torch.equal(got[1], scales.view(torch.uint8))


def test_every_e4m3_byte_stands_for_what_torch_reads() -> None:
    wide = codec_of("mxfp8")
    read = wide.decode(BYTES.view(8, 32), torch.full((8, 1), 127, dtype=torch.uint8)).flatten()
    expected = BYTES.view(torch.float8_e4m3fn).double()
    assert torch.equal(read.nan_to_num(-1), expected.nan_to_num(-1))
    assert torch.equal(read.signbit(), expected.signbit())


def test_every_scale_byte_stands_for_what_torch_reads() -> None:
    powers = BYTES.view(torch.float8_e8m0fnu).double()
    assert torch.equal(codec_of("mxfp8").scale_meaning(BYTES)[:255], powers[:255])
    assert codec_of("fp4_mx16").scale_meaning(BYTES)[255].isnan()
    as_e4m3 = codec_of("nvfp4").scale_meaning(BYTES)
    assert torch.equal(as_e4m3[:127], BYTES[:127].view(torch.float8_e4m3fn).double())


@pytest.mark.parametrize("scheme", BLOCK_SCALED)
def test_kit_and_kernels_came_to_the_same(scheme: QuantScheme) -> None:
    codec = codec_of(scheme)
    for seed in range(3):
        given = rows(seed).clamp(-2000, 2000)
        elements, scales = _by_kernels(codec, given)
        wanted = codec.encode(given.float())
        assert torch.equal(scales, wanted[1])
        assert torch.equal(elements, wanted[0])
        assert torch.equal(_read(codec, elements, scales), codec.decode(elements, scales).float())


def test_a_row_that_the_scheme_holds_comes_back() -> None:
    held = torch.tensor([0.0, 0.5, -1.0, 1.5, -2.0, 3.0, -4.0, 6.0] * 4)
    for scheme in BLOCK_SCALED:
        codec = codec_of(scheme)
        assert torch.equal(codec.decode(*codec.encode(held)).float(), held)


def test_halves_go_to_the_even_neighbour() -> None:
    halves = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0] * 2)
    codec = codec_of("fp4_mx16")
    read = codec.decode(*codec.encode(halves))
    assert read[:8].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]


def _by_kernels(codec: BlockCodec, given: Tensor) -> tuple[Tensor, Tensor]:
    match codec.scheme:
        case "fp4_mx16" | "nvfp4" as style:
            return quantise_fp4(given, style, ONE)
        case _:
            return quantise_mxfp8(given)


def _read(codec: BlockCodec, elements: Tensor, scales: Tensor) -> Tensor:
    match codec.scheme:
        case "fp4_mx16" | "nvfp4" as style:
            return dequantise_fp4(elements, scales, style, ONE, torch.float32)
        case _:
            return dequantise_mxfp8(elements, scales, torch.float32)
