"""The DSA leaf: packed rows byte for byte, regions, and what its constructor refuses."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto import protocols
from kvproto.kernels import packed_latent_width
from kvproto.protocols import Declined, DSALeafRequest, explain
from kvproto.reference import DSALeaf, build_reference_leaf
from tests.kernels.latent_oracle import packed_row
from tests.reference.dsa_leaves import FP8, GEOMETRY, PACKED, filled, keys_of, make
from tests.reference.stand_ins import Layer
from tests.reference.sync_free import SyncFree

CAPABILITIES = [
    "KVLeaf",
    "MLALatent",
    "LatentRows",
    "LayerOverrideWrite",
    "IndexerCapable",
    "Transferable",
    "LayerIdReporting",
    "StateTransferable",
    "HostCopyable",
    "Movable",
    "SizeReporting",
    "DeclaresTraits",
    "DeclaresRegions",
]


def request(**changes: Any) -> DSALeafRequest:
    return DSALeafRequest(**(GEOMETRY | changes))


@pytest.mark.parametrize("name", CAPABILITIES)
def test_has_its_capabilities_by_declaration(name: str) -> None:
    capability = getattr(protocols, name)
    assert isinstance(make(), capability)
    assert issubclass(DSALeaf, capability)
    assert explain(DSALeaf, capability) == []


@pytest.mark.parametrize("name", ["KPoolTail", "ScaledWrite", "MHARows", "HiSparse"])
def test_lacks_what_it_lacks(name: str) -> None:
    assert not isinstance(make(), getattr(protocols, name))


def test_takes_the_keywords_in_use() -> None:
    leaf = make(
        kv_cache_dim=576,
        start_layer=4,
        end_layer=6,
        index_kpool=1,
        index_kpool_compress=False,
        tail_extra_slots=0,
        max_running_requests=8,
        skip_topk_layers=[False, True],
    )
    assert (leaf.start_layer, leaf.skip_topk_layers) == (4, (False, True))
    assert (leaf.index_head_dim, leaf.index_page_size, leaf.index_kpool) == (128, 64, 1)


def test_regions_of_a_target_and_its_draft() -> None:
    """sglang#23539: main and index regions of all layers, and nothing per token beside them."""
    target = make(layer_num=3, size=64)
    draft = make(layer_num=1, size=64, start_layer=3)
    main = [leaf.get_contiguous_buf_infos() for leaf in (target, draft)]
    index = [leaf.get_state_buf_infos() for leaf in (target, draft)]
    assert [infos[2] for infos in main] == [[73728] * 3, [73728]]
    assert [infos[2] for infos in index] == [[8448] * 3, [8448]]
    assert all(n == 2 * i for infos in main + index for n, i in zip(*infos[1:], strict=True))
    assert len({pointer for infos in index for pointer in infos[0]}) == 4
    owned = target.get_kv_size_bytes() + draft.get_kv_size_bytes()
    assert sum(sum(infos[1]) for infos in main + index) == owned
    assert set(target.get_kv_layer_ids()).isdisjoint(draft.get_kv_layer_ids())


def test_one_page_of_a_public_model() -> None:
    """78 layers in bf16 are 6409728 bytes a page, packed 78 * (41984 + 8448)."""
    for changes, row in (({}, 73728), (PACKED, 41984)):
        leaf = make(layer_num=78, size=64, **changes)
        items = leaf.get_contiguous_buf_infos()[2] + leaf.get_state_buf_infos()[2]
        assert sum(items) == 78 * (row + 8448)
    assert 78 * (73728 + 8448) == 6409728


def test_a_packed_row_is_656_bytes() -> None:
    """sglang#37534: 512 + 16 + 128, so 1312 bytes a token in two layers."""
    leaf = make(**PACKED, index_head_dim=128)
    assert (leaf.kv_cache_dim, leaf.store_dtype) == (656, torch.uint8)
    assert sum(leaf.get_contiguous_buf_infos()[2]) == 1312 * 64
    assert leaf.get_key_buffer(0).shape == (192, 1, 656)
    assert leaf.get_value_buffer(0).shape == (192, 1, 512)
    assert leaf.get_key_buffer(0).dtype == FP8
    assert packed_latent_width(512, 64) == 656


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_packed_rows_byte_for_byte_through_both_writers(index: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    rows = (torch.randn(4, 1, 576, generator=generator) * 20).bfloat16()
    rows[1] = float("nan")
    loc = torch.tensor([70, 0, 191, -1], dtype=index)
    expected = [packed_row(*_split(rows[i])) for i in (0, 2)]
    split, whole = make(**PACKED), make(**PACKED)
    split.set_mla_kv_buffer(Layer(1), loc, rows[..., :512], rows[..., 512:])
    whole.set_kv_buffer(Layer(1), loc, rows, rows[..., :512])
    for leaf in (split, whole):
        buffer = leaf.kv_buffer[1]
        assert [buffer[i].numpy().tobytes() for i in (70, 191)] == expected
        buffer[[70, 191]] = 0
        assert not buffer.any()
        assert not leaf.kv_buffer[0].any()


def test_packed_rows_are_read_dequantised() -> None:
    leaf = make(**PACKED)
    latent = torch.tensor([448.0, 3.5, -896.0, 0.0]).repeat_interleave(128).view(1, 1, 512)
    rope = torch.arange(64, dtype=torch.float32).view(1, 1, 64)
    leaf.set_mla_kv_buffer(Layer(), torch.tensor([7]), latent, rope)
    for dtype in (torch.bfloat16, torch.float32):
        a, b = leaf.get_mla_kv_buffer(Layer(), torch.tensor([7, 0, -1]), dst_dtype=dtype)
        assert (a.dtype, b.dtype, a.shape, b.shape) == (dtype, dtype, (3, 1, 512), (3, 1, 64))
        assert torch.equal(a[0], latent[0].to(dtype))
        assert torch.equal(b[0], rope[0].to(dtype))
        assert not a[1:].any()
        assert not b[1:].any()
    by_default, _ = leaf.get_mla_kv_buffer(Layer(), torch.tensor([7]))
    assert by_default.dtype == torch.bfloat16
    assert by_default.float().flatten()[::128].tolist() == [448.0, 3.5, -896.0, 0.0]
    as_fp8, _ = leaf.get_mla_kv_buffer(Layer(), torch.tensor([7]), dst_dtype=FP8)
    assert as_fp8.float().flatten()[::128].tolist() == [448.0, 3.5, -448.0, 0.0]


def test_every_byte_of_a_row_and_page_is_declared() -> None:
    leaf = filled(**PACKED, start_layer=2)
    leaf.set_mla_kv_buffer(
        Layer(3),
        torch.tensor([69]),
        torch.full((1, 1, 512), 448.0),
        torch.arange(64).view(1, 1, 64).float(),
    )
    rows, index = leaf.buffer_regions()
    assert [f.name for f in rows.fields] == ["latent", "scale", "rope"]
    assert [(f.offset, f.shape) for f in rows.fields] == [
        (0, (64, 512)),
        (512, (64, 4)),
        (528, (64, 64)),
    ]
    assert [(f.name, f.offset, f.shape) for f in index.fields] == [
        ("index_key", 0, (64, 128)),
        ("scale", 8192, (64,)),
    ]
    assert (rows.bytes_per_page, index.bytes_per_page) == (41984, 8448)
    for region in (rows, index):
        elements = sum(f.element_bytes * _product(f.shape) for f in region.fields)
        assert elements == region.bytes_per_page

    def peek(address: int, dtype: torch.dtype) -> float:
        raw = ctypes.string_at(address, dtype.itemsize)
        return float(torch.frombuffer(bytearray(raw), dtype=dtype)[0])

    assert peek(rows.address(3, 1, 5, 511, field="latent"), FP8) == 448.0
    assert peek(rows.address(3, 1, 5, 3, field="scale"), torch.float32) == 1.0
    assert peek(rows.address(3, 1, 5, 63, field="rope"), torch.bfloat16) == 63.0
    assert peek(index.address(2, 2, 2, field="scale"), torch.float32) == 130.0
    assert ctypes.string_at(index.address(2, 2, 2, 127, field="index_key"), 1) == bytes([130])


def test_traits() -> None:
    traits = make(**PACKED).pool_traits
    assert (traits.kind, traits.layout, traits.index_scheme) == (
        "dsa",
        "latent_rows",
        "dsa_fp8_scale",
    )
    assert (traits.quant_scheme, traits.fp8_variant) == ("dsa_fp8_packed", "e4m3fn")
    assert (traits.state_index_space, traits.replication) == ("kv_pages", "tp_replicated")
    assert make().pool_traits.quant_scheme == "none"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"index_kpool": 4}, "index_kpool=4: a DSALeaf has an index key per token"),
        ({"index_head_dim": 0}, "index_head_dim=0: must be at least 1"),
        ({"skip_topk_layers": [True]}, "skip_topk_layers has 1 flags, must be one .* 2 layers"),
        ({"kv_cache_dim": 656}, "kv_cache_dim=656: .* in torch.bfloat16 have 576 elements"),
        ({"size": 100}, "size=100: not a multiple of page_size=64"),
    ],
)
def test_impossible_geometry_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(**changes)


def test_requests_are_built_or_declined() -> None:
    flags = (False, True)
    bf16 = request(start_layer=5, skip_topk_layers=flags)
    packed = request(dtype=FP8, quant_scheme="dsa_fp8_packed")
    for asked, width in ((bf16, 576), (packed, 656)):
        assert asked.kv_cache_dim == width
        assert asked.keywords()["kv_cache_dim"] == width
        built = build_reference_leaf(asked)
        assert isinstance(built, DSALeaf)
        assert built.kv_cache_dim == width
    assert bf16.keywords()["skip_topk_layers"] == [False, True]
    assert packed.keywords()["skip_topk_layers"] is None
    declined = build_reference_leaf(request(layout="latent_split"))
    assert isinstance(declined, Declined)
    assert "DSA leaf with layout='latent_split'" in declined.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"skip_topk_layers": (True,)}, "skip_topk_layers has 1 flags: must be one .* 2 layers"),
        ({"quant_scheme": "dsa_fp8_packed"}, "dtype=torch.bfloat16: packed latents are"),
        (
            {"quant_scheme": "dsa_fp8_packed", "dtype": FP8, "kv_lora_rank": 500},
            "kv_lora_rank=500: packed rows hold whole blocks of 128",
        ),
        ({"dtype": FP8}, "quant_scheme='none': dtype=torch.float8_e4m3fn is a quantised"),
        ({"index_head_dim": 0}, "index_head_dim=0: must be an integer of at least 1"),
    ],
)
def test_requests_that_contradict_themselves(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request(**changes)


def test_no_door_waits_for_the_data() -> None:
    leaf, loc = make(**PACKED), torch.tensor([64, 0, -1])
    rows = torch.ones(3, 1, 576)
    with SyncFree():  # type: ignore[no-untyped-call]  # torch has no types here
        leaf.set_mla_kv_buffer(Layer(), loc, rows[..., :512], rows[..., 512:])
        leaf.set_kv_buffer(Layer(), loc, rows, None)
        leaf.set_index_k_scale_buffer(0, loc, *keys_of([1, 2, 3]))
        leaf.move_kv_cache(loc, loc)
        leaf.get_mla_kv_buffer(Layer(), loc, torch.bfloat16)
        leaf.get_index_k_scale_buffer(0, torch.tensor([2]), torch.tensor([[1]]), 2, 2)


def test_traces_without_breaking_the_graph() -> None:
    leaf = make(**PACKED)

    def step(loc: Tensor, rows: Tensor, keys: Tensor, scales: Tensor) -> Tensor:
        leaf.set_mla_kv_buffer(None, loc, rows[..., :512], rows[..., 512:], layer_id_override=0)
        leaf.set_index_k_scale_buffer(0, loc, keys, scales)
        leaf.move_kv_cache(loc + 1, loc)
        return leaf.get_index_k_with_scale_buffer(0).float().sum()

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    keys, scales = keys_of([1, 1])
    total = compiled(torch.tensor([64, 0]), torch.ones(2, 1, 576), keys, scales).item()
    assert total == 2 * (128 + sum(scales[:1].view(torch.uint8).tolist()))


def _split(row: Tensor) -> tuple[list[float], list[float]]:
    flat: list[float] = row.flatten().float().tolist()
    return flat[:512], flat[512:]


def _product(shape: tuple[int, ...]) -> int:
    return int(torch.tensor(shape).prod())
