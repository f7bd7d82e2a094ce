"""The MLA leaf: what its constructor takes and refuses, and what it promises beyond the laws."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from kvproto import protocols
from kvproto.debug import ContractViolation, validate
from kvproto.protocols import Declined, MLALeafRequest, explain, peer_differences
from kvproto.reference import MLALeaf, build_reference_leaf
from tests.reference.stand_ins import Layer, Waits

GEOMETRY: dict[str, Any] = {
    "size": 8,
    "page_size": 1,
    "dtype": torch.bfloat16,
    "kv_lora_rank": 4,
    "qk_rope_head_dim": 2,
    "layer_num": 2,
    "device": "cpu",
    "enable_memory_saver": False,
}
DEEPSEEK = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "page_size": 64, "size": 64}
CAPABILITIES = [
    "KVPool",
    "KVLeaf",
    "MLALatent",
    "LatentRows",
    "LayerOverrideWrite",
    "PrefixValidCommit",
    "Transferable",
    "LayerIdReporting",
    "HostCopyable",
    "Movable",
    "SizeReporting",
    "DeclaresTraits",
    "DeclaresRegions",
]
LACKING = ["ScaledWrite", "MHARows", "IndexerCapable", "StateTransferable"]
INDEX = [torch.int32, torch.int64]


def make(**changes: Any) -> MLALeaf:
    return MLALeaf(**(GEOMETRY | changes))


def rows_of(leaf: MLALeaf, layer_id: int = 0) -> torch.Tensor:
    return leaf.get_key_buffer(layer_id).float()[:, 0]


@pytest.mark.parametrize("name", CAPABILITIES)
def test_has_its_capabilities_by_declaration(name: str) -> None:
    capability = getattr(protocols, name)
    assert isinstance(make(), capability)
    assert issubclass(MLALeaf, capability)
    assert explain(MLALeaf, capability) == []


@pytest.mark.parametrize("name", LACKING)
def test_lacks_what_it_lacks(name: str) -> None:
    assert not isinstance(make(), getattr(protocols, name))


def test_takes_the_keywords_in_use_and_positions_of_the_first_eight() -> None:
    leaf = make(start_layer=3, end_layer=5, use_dsa=False, override_kv_cache_dim=None)
    assert (leaf.start_layer, leaf.end_layer, leaf.layer_num) == (3, 5, 2)
    leaf = MLALeaf(8, 1, torch.bfloat16, 4, 2, 2, "cpu", False)
    assert (leaf.kv_lora_rank, leaf.qk_rope_head_dim, leaf.kv_cache_dim) == (4, 2, 6)
    assert [b.shape for b in leaf.kv_buffer] == [(9, 1, 6)] * 2


@pytest.mark.parametrize("index", INDEX)
def test_no_writer_reaches_the_reserved_slot(index: torch.dtype) -> None:
    """sglang#36207: padded rows of NaN aim at location 0, and masked lanes read it back."""
    rows = torch.tensor([[float("nan")] * 6, [1, 2, 3, 4, 5, 6], [float("inf")] * 6]).view(3, 1, 6)
    loc = torch.tensor([0, 3, 0], dtype=index)
    expected = torch.zeros(9, 6)
    expected[3] = torch.arange(1, 7)
    whole, split = make(), make()
    whole.set_kv_buffer(Layer(), loc, rows, rows[..., :4])
    split.set_mla_kv_buffer(Layer(), loc, rows[..., :4], rows[..., 4:])
    for leaf in (whole, split):
        assert torch.equal(rows_of(leaf), expected)
        leaf.set_mla_kv_buffer(
            Layer(),
            loc[:1].expand(4),
            rows[:1, :, :4].expand(4, 1, 4),
            rows[:1, :, 4:].expand(4, 1, 2),
        )
        assert torch.equal(rows_of(leaf), expected)


@pytest.mark.parametrize("index", INDEX)
def test_negative_locations_write_nothing(index: torch.dtype) -> None:
    """tokenspeed#709: the last row is not location -1."""
    leaf = make(kv_lora_rank=1, qk_rope_head_dim=1)
    values = torch.tensor([7.0, 5.0]).view(2, 1, 1)
    leaf.set_mla_kv_buffer(Layer(), torch.tensor([-1, 2], dtype=index), values, values)
    assert rows_of(leaf)[:, 0].tolist() == [0, 0, 5, 0, 0, 0, 0, 0, 0]
    leaf.set_kv_buffer(Layer(), torch.tensor([-9, -3]), values.expand(2, 1, 2), None)
    assert rows_of(leaf)[:, 0].tolist() == [0, 0, 5, 0, 0, 0, 0, 0, 0]


def test_parts_may_be_slices_of_one_tensor() -> None:
    """sglang#38178: both parts have the stride of the packed row they come from."""
    x = torch.arange(32, dtype=torch.bfloat16).view(4, 1, 8)
    leaf = make(kv_lora_rank=6, qk_rope_head_dim=2)
    loc = torch.tensor([1, 9, 2, 9, 3, 9, 4, 9])[::2]
    leaf.set_mla_kv_buffer(Layer(), loc, x[..., :6], x[..., 6:])
    assert torch.equal(rows_of(leaf)[1:5], x[:, 0].float())
    leaf.set_mla_kv_buffer(Layer(1), loc.int(), x[:, 0, :6], x[:, 0, 6:])
    assert torch.equal(rows_of(leaf, 1), rows_of(leaf))
    leaf.set_kv_buffer(Layer(), loc, x.transpose(0, 1).contiguous().transpose(0, 1), x[..., :6])
    assert torch.equal(rows_of(leaf, 1), rows_of(leaf))
    leaf.set_kv_buffer(Layer(), loc, x[:1].expand(4, 1, 8), None)
    assert torch.equal(rows_of(leaf)[1:5], x[:1, 0].float().expand(4, 8))


def test_a_value_is_the_prefix_of_its_key() -> None:
    for dtype in (torch.bfloat16, torch.float8_e5m2):
        leaf = make(dtype=dtype)
        key, value = leaf.get_kv_buffer(1)
        assert (key.shape, value.shape) == ((9, 1, 6), (9, 1, 4))
        assert key.dtype == value.dtype == dtype
        assert key.data_ptr() == value.data_ptr() == leaf.kv_buffer[1].data_ptr()
        leaf.set_mla_kv_buffer(
            Layer(1), torch.tensor([2]), torch.full((1, 4), 3.0), torch.ones(1, 2)
        )
        assert value[2].float().flatten().tolist() == [3.0] * 4


def test_parts_are_read_back_in_a_dtype_of_choice() -> None:
    leaf = make()
    rows = torch.arange(1, 13, dtype=torch.float32).view(2, 1, 6)
    leaf.set_kv_buffer(Layer(), torch.tensor([8, 3]), rows, None)
    loc = torch.tensor([3, 0, -1, 8], dtype=torch.int32)
    latent, rope = leaf.get_mla_kv_buffer(Layer(), loc)
    assert latent.dtype == rope.dtype == torch.bfloat16
    assert latent.tolist() == [[[7, 8, 9, 10]], [[0] * 4], [[0] * 4], [[1, 2, 3, 4]]]
    assert rope.tolist() == [[[11, 12]], [[0, 0]], [[0, 0]], [[5, 6]]]
    latent, _ = leaf.get_mla_kv_buffer(Layer(), loc, dst_dtype=torch.float32)
    assert latent.dtype == torch.float32
    latent.zero_()
    assert rows_of(leaf)[3].tolist() == [7, 8, 9, 10, 11, 12]
    with pytest.raises(IndexError, match="location 9 is past the last row 8"):
        leaf.get_mla_kv_buffer(Layer(), torch.tensor([9]))


def test_fp8_rows_are_saturated_bytes_of_their_variant() -> None:
    """rtp-llm#1256, vllm#45720: 1000 is the largest number, and 0x40 is 2 in fn and 1 in fnuz."""
    given = torch.tensor([448, 449, 464, 465, 1000, -1000, float("inf"), -float("inf")])
    seen = {torch.float8_e4m3fn: (0x7E, 0xFE), torch.float8_e4m3fnuz: (0x7F, 0xFF)}
    for dtype, (high, low) in seen.items():
        leaf = make(dtype=dtype, kv_lora_rank=6)
        leaf.set_kv_buffer(Layer(), torch.tensor([1]), given.view(1, 1, 8), None)
        stored = leaf.kv_buffer[0][1].flatten().tolist()
        assert stored == [high] * 5 + [low, high, low]
        ones = torch.tensor([1.0, -0.0]).view(1, 1, 2)
        leaf.set_mla_kv_buffer(Layer(), torch.tensor([2]), ones.repeat(1, 1, 3), ones)
        one = 0x38 if dtype == torch.float8_e4m3fn else 0x40
        zero = 0x80 if dtype == torch.float8_e4m3fn else 0x00
        assert leaf.kv_buffer[0][2].flatten().tolist() == [one, zero] * 4
        assert leaf.store_dtype == torch.uint8
        assert leaf.get_contiguous_buf_infos()[2] == [8, 8]
        latent, _ = leaf.get_mla_kv_buffer(Layer(), torch.tensor([2]), torch.bfloat16)
        assert latent.flatten().tolist() == [1.0, -0.0] * 3


def test_one_row_has_no_two_scales() -> None:
    """One stored row is key and value: a door with scales could not keep both."""
    row = torch.ones(1, 1, 6)
    options: Any = {"k_scale": 0.5, "v_scale": 0.25}
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        make().set_kv_buffer(Layer(), torch.tensor([1]), row, row, **options)
    with pytest.raises(TypeError, match="positional arguments"):
        make().set_kv_buffer(Layer(), torch.tensor([1]), row, row, 1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_page_of_the_public_models() -> None:
    """sglang#26490: an item is a page, 512 + 64 in bf16 and 64 tokens are 73728 bytes."""
    pointers, lengths, items = make(**DEEPSEEK).get_contiguous_buf_infos()
    assert (items, lengths) == ([73728] * 2, [147456] * 2)
    assert len(set(pointers)) == 2


@pytest.mark.parametrize("page", [1, 4, 64])
def test_a_page_travels_by_its_address(page: int) -> None:
    leaf = make(size=2 * page, page_size=page, start_layer=5)
    loc = torch.arange(1, 3 * page)
    for layer_id in (5, 6):
        rows = (loc // page + layer_id).view(-1, 1, 1).expand(-1, 1, 6).float()
        leaf.set_kv_buffer(Layer(layer_id), loc, rows, None)
    before = [rows_of(leaf, i) for i in (5, 6)]
    for pointer, _, item in zip(*leaf.get_contiguous_buf_infos(), strict=True):
        ctypes.memmove(pointer + item, pointer + 2 * item, item)
    for layer_id, old in zip((5, 6), before, strict=True):
        old[page : 2 * page] = old[2 * page :]
        assert torch.equal(rows_of(leaf, layer_id), old)
    assert leaf.get_kv_layer_ids() == [5, 6]


def test_moves_and_host_copies_carry_every_layer() -> None:
    leaf = make()
    rows = torch.arange(54, dtype=torch.float32).view(9, 1, 6)
    for layer_id in (0, 1):
        leaf.set_kv_buffer(Layer(layer_id), torch.arange(9), rows + layer_id, None)
    leaf.move_kv_cache(torch.tensor([2, 3, 0, -1]), torch.tensor([1, 2, 5, 6]))
    copy = leaf.get_cpu_copy(torch.tensor([3, 1]), mamba_indices=None, req_pool_index=None)
    leaf.load_cpu_copy(copy, torch.tensor([7, 8]), mamba_indices=None, req_pool_index=None)
    for layer_id in (0, 1):
        expected = rows[:, 0] + layer_id
        expected[0] = 0
        expected[[2, 3, 7, 8]] = expected[[1, 2, 2, 1]]
        assert torch.equal(rows_of(leaf, layer_id), expected)
    with pytest.raises(ValueError, match="the copy holds 2 rows of 2 buffers, asked to load 1"):
        leaf.load_cpu_copy(copy, torch.tensor([1]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 6, "page_size": 4}, "size=6: not a multiple of page_size=4.*round down to 4"),
        ({"kv_lora_rank": 0}, "kv_lora_rank=0: must be at least 1"),
        ({"qk_rope_head_dim": -1}, "qk_rope_head_dim=-1: must be at least 0"),
        ({"start_layer": 2, "end_layer": 3}, "end_layer=3: start_layer=2 and layer_num=2 end at 4"),
        ({"dtype": torch.int64}, "dtype=torch.int64: must be one of"),
        ({"override_kv_cache_dim": 9}, "kv_cache_dim=9: rows of .* have 6 elements"),
        (
            {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "dtype": torch.float8_e4m3fn}
            | {"override_kv_cache_dim": 640},
            r"have 576, or 656 \(packed\) elements",
        ),
        (
            {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "dtype": torch.float8_e4m3fn}
            | {"override_kv_cache_dim": 656},
            "pass use_dsa=True",
        ),
    ],
)
def test_impossible_geometry_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(**changes)


def test_layer_ids_never_wrap() -> None:
    """sglang#22605: ids just below the stage are not its last layers."""
    leaf = make(start_layer=8, layer_num=4)
    assert len({leaf.get_key_buffer(i).data_ptr() for i in range(8, 12)}) == 4
    rows = torch.ones(1, 1, 6)
    for foreign in (0, 7, 4, 12, -1):
        for call in (
            lambda i=foreign: leaf.get_value_buffer(i),
            lambda i=foreign: leaf.get_mla_kv_buffer(Layer(i), torch.tensor([1])),
            lambda i=foreign: leaf.set_mla_kv_buffer(
                Layer(i), torch.tensor([1]), rows[..., :4], rows[..., 4:]
            ),
            lambda i=foreign: leaf.set_kv_buffer(
                None, torch.tensor([1]), rows, None, layer_id_override=i
            ),
        ):
            with pytest.raises(ValueError, match=f"layer_id={foreign} is not in this pool"):
                call()


def test_a_stage_without_layers_exports_nothing() -> None:
    leaf = make(layer_num=0, start_layer=4)
    assert leaf.get_contiguous_buf_infos() == ([], [], [])
    assert (leaf.get_kv_layer_ids(), leaf.buffer_regions()) == ([], ())
    assert leaf.get_kv_size_bytes() == 0
    assert leaf.get_cpu_copy(torch.tensor([1])).rows == ()


def test_a_refused_write_leaves_the_row_alone() -> None:
    leaf, loc = make(), torch.tensor([1, 9])
    rows = torch.ones(2, 1, 6)
    with pytest.raises(IndexError, match="location 9 is past the last row 8"):
        leaf.set_kv_buffer(Layer(), loc, rows, None)
    with pytest.raises(ValueError, match=r"cache_k has shape \(2, 1, 5\), must be \(2, 1, 6\)"):
        leaf.set_kv_buffer(Layer(), torch.tensor([1, 2]), rows[..., :5], None)
    with pytest.raises(ValueError, match=r"cache_k_rope has shape \(2, 1, 1\)"):
        leaf.set_mla_kv_buffer(Layer(), torch.tensor([1, 2]), rows[..., :4], rows[..., :1])
    assert not leaf.kv_buffer[0].any()


def test_size_is_one_number() -> None:
    leaf = make()
    assert leaf.get_kv_size_bytes() == 2 * 9 * 6 * 2
    assert leaf.mem_usage == 216 / 2**30


def test_every_read_door_waits_for_its_layer() -> None:
    leaf, waits = make(start_layer=3), Waits()
    leaf.register_layer_transfer_counter(waits)
    leaf.get_value_buffer(4)
    leaf.get_mla_kv_buffer(Layer(3), torch.tensor([1]))
    assert waits.seen == [1, 0]


def test_traits_and_regions() -> None:
    traits = make(dtype=torch.float8_e5m2).pool_traits
    assert (traits.kind, traits.layout, traits.replication) == (
        "mla",
        "latent_rows",
        "tp_replicated",
    )
    assert (traits.quant_scheme, traits.fp8_variant) == ("fp8_scaled", "e5m2")
    assert make().pool_traits.quant_scheme == "none"
    (region,) = make(**DEEPSEEK, start_layer=2).buffer_regions()
    assert (region.layer_ids, region.page_count, region.bytes_per_page) == ((2, 3), 2, 73728)
    assert region.address(3, 1, 5, 3) == region.bases[1] + (64 + 5) * 1152 + 6
    assert region.address(3, 1, 5, 3, field="rope") == region.bases[1] + (64 + 5) * 1152 + 1030
    fp8 = make(**DEEPSEEK, start_layer=2, dtype=torch.float8_e4m3fn).buffer_regions()
    assert peer_differences((region,), fp8)


def test_packed_rows_without_index_keys() -> None:
    packed = {"dtype": torch.float8_e4m3fn, "use_dsa": True, "override_kv_cache_dim": 656}
    leaf = make(**DEEPSEEK, **packed)
    assert leaf.get_contiguous_buf_infos()[2] == [656 * 64] * 2
    assert leaf.pool_traits.quant_scheme == "dsa_fp8_packed"


def test_requests_are_built_or_declined() -> None:
    request = MLALeafRequest(**GEOMETRY, start_layer=5)
    built = build_reference_leaf(request)
    assert isinstance(built, MLALeaf)
    assert (built.start_layer, built.kv_cache_dim) == (5, 6)
    declined = build_reference_leaf(MLALeafRequest(**GEOMETRY, layout="latent_split"))
    assert isinstance(declined, Declined)
    assert "layout='latent_split'" in declined.reason


def test_calls_are_validated_in_debug_mode() -> None:
    leaf = validate(make())
    leaf.set_kv_buffer(Layer(), torch.tensor([1]), torch.ones(1, 1, 6), torch.ones(1, 1, 4))
    assert leaf.get_mla_kv_buffer(Layer(), torch.tensor([1]))[0].shape == (1, 1, 4)
    with pytest.raises(ContractViolation, match="loc_info"):
        leaf.set_kv_buffer(Layer(), torch.tensor([9]), torch.ones(1, 1, 6), torch.ones(1, 1, 4))


def test_traces_without_breaking_the_graph() -> None:
    leaf = make()

    def step(loc: torch.Tensor, latent: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
        leaf.set_mla_kv_buffer(None, loc, latent, rope, layer_id_override=0)
        return leaf.get_value_buffer(0).float().sum()

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    parts = torch.ones(2, 1, 4), torch.ones(2, 1, 2)
    assert compiled(torch.tensor([1, 0]), *parts).item() == 4
