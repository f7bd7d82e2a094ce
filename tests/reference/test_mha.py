"""The MHA leaf: what its constructor takes and refuses, and what it promises beyond the laws."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.protocols import (
    DeclaresRegions,
    DeclaresTraits,
    Declined,
    HostCopyable,
    KVLeaf,
    LayerIdReporting,
    LayerOverrideWrite,
    MHALeafRequest,
    MHARows,
    Movable,
    PrefixValidCommit,
    ScaledWrite,
    SizeReporting,
    SWACapable,
    Transferable,
)
from kvproto.reference import MHALeaf, build_reference_leaf

GEOMETRY: dict[str, Any] = {
    "size": 8,
    "page_size": 4,
    "dtype": torch.bfloat16,
    "head_num": 2,
    "head_dim": 4,
    "layer_num": 2,
    "device": "cpu",
    "enable_memory_saver": False,
}


def make(**changes: Any) -> MHALeaf:
    return MHALeaf(**(GEOMETRY | changes))


@pytest.mark.parametrize(
    "capability",
    [
        KVLeaf,
        MHARows,
        ScaledWrite,
        LayerOverrideWrite,
        PrefixValidCommit,
        Transferable,
        LayerIdReporting,
        HostCopyable,
        Movable,
        SizeReporting,
        DeclaresTraits,
        DeclaresRegions,
    ],
)
def test_has_its_capabilities_by_declaration(capability: type) -> None:
    assert isinstance(make(), capability)
    assert issubclass(MHALeaf, capability)


def test_lacks_what_it_lacks() -> None:
    assert not isinstance(make(), SWACapable)


def test_takes_the_keywords_in_use_and_positions_of_the_first_ten() -> None:
    leaf = make(start_layer=3, end_layer=5, enable_alt_stream=False, enable_kv_cache_copy=True)
    assert (leaf.start_layer, leaf.end_layer, leaf.layer_num) == (3, 5, 2)
    assert MHALeaf(8, 4, torch.bfloat16, 2, 4, 2, "cpu", False, 6).v_head_dim == 6


def test_descriptors_of_a_public_example() -> None:
    """Two heads of 4 in bf16, two layers, 8 slots in pages of 4: four regions of 64-byte items."""
    pointers, lengths, items = make().get_contiguous_buf_infos()
    assert items == [64] * 4
    assert lengths == [192] * 4
    leaf = make()
    pointers = leaf.get_contiguous_buf_infos()[0]
    assert pointers == [b.data_ptr() for b in (*leaf.k_buffer, *leaf.v_buffer)]


def test_keys_and_values_have_their_own_width() -> None:
    leaf = make(size=8, page_size=1, head_num=1, head_dim=128, v_head_dim=64, layer_num=1)
    assert leaf.get_key_buffer(0).shape == (9, 1, 128)
    assert leaf.get_value_buffer(0).shape == (9, 1, 64)
    assert leaf.get_contiguous_buf_infos()[2] == [256, 128]
    assert leaf.get_kv_size_bytes() == (9 * 256, 9 * 128)
    assert make(v_head_dim=None).v_head_dim == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 6}, "size=6: not a multiple of page_size=4.*round down to 4"),
        ({"size": 0}, "size=0: must be at least 1"),
        ({"page_size": 0}, "page_size=0: must be at least 1"),
        ({"v_head_dim": 0}, "v_head_dim=0: must be at least 1"),
        ({"head_num": -1}, "head_num=-1: must be at least 1"),
        ({"start_layer": 2, "end_layer": 3}, "end_layer=3: start_layer=2 and layer_num=2 end at 4"),
        ({"layer_num": -1}, "must not be negative"),
        ({"dtype": torch.int64}, "dtype=torch.int64: must be one of"),
    ],
)
def test_impossible_geometry_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(**changes)


def test_layer_ids_never_wrap() -> None:
    leaf = make(start_layer=8, layer_num=4)
    assert len({leaf.get_key_buffer(i).data_ptr() for i in range(8, 12)}) == 4
    for foreign in (0, 7, 4, 12, -1):
        with pytest.raises(ValueError, match=f"layer_id={foreign} is not in this pool"):
            leaf.get_key_buffer(foreign)
    with pytest.raises(ValueError, match="owns no layers"):
        make(layer_num=0).get_key_buffer(0)


def test_flat_rows_are_rows_too() -> None:
    leaf, loc = make(), torch.tensor([5, 3])
    k, v = torch.randn(2, 2, 4), torch.randn(2, 2, 4)
    leaf.set_kv_buffer(None, loc, k.flatten(1), v.flatten(1), layer_id_override=1)
    assert torch.equal(leaf.get_key_buffer(1)[loc], k.bfloat16())
    with pytest.raises(ValueError, match="layer is None and layer_id_override was not given"):
        leaf.set_kv_buffer(None, loc, k, v)


def test_a_refused_write_leaves_both_sides_alone() -> None:
    leaf, loc = make(), torch.tensor([1, 12])
    k = torch.ones(2, 2, 4)
    with pytest.raises(IndexError, match="location 12 is past the last row 11"):
        leaf.set_kv_buffer(None, loc, k, k, layer_id_override=0)
    with pytest.raises(ValueError, match=r"cache_v has shape \(2, 2, 5\), must be \(2, 2, 4\)"):
        leaf.set_kv_buffer(None, loc[:1].expand(2), k, torch.ones(2, 2, 5), layer_id_override=0)
    assert not leaf.get_key_buffer(0).any()
    assert not leaf.get_value_buffer(0).any()


def test_traits_say_which_fp8() -> None:
    traits = make(dtype=torch.float8_e4m3fnuz).pool_traits
    assert (traits.quant_scheme, traits.fp8_variant) == ("fp8_scaled", "e4m3fnuz")
    assert make().pool_traits.quant_scheme == "none"


def test_fp8_rows_are_bytes_read_in_their_own_variant() -> None:
    leaf = make(dtype=torch.float8_e4m3fnuz)
    ones = torch.ones(1, 2, 4)
    leaf.set_kv_buffer(None, torch.tensor([2]), ones, -0.0 * ones, layer_id_override=0)
    assert leaf.store_dtype == torch.uint8
    assert set(leaf.k_buffer[0][2].flatten().tolist()) == {0x40}
    assert set(leaf.v_buffer[0][2].flatten().tolist()) == {0x00}
    assert leaf.get_key_buffer(0).dtype == torch.float8_e4m3fnuz
    assert set(leaf.get_key_buffer(0)[2].float().flatten().tolist()) == {1.0}


def test_a_copy_is_loaded_whole_or_not_at_all() -> None:
    leaf = make()
    copy = leaf.get_cpu_copy(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="the copy holds 2 rows of 4 buffers, asked to load 1"):
        leaf.load_cpu_copy(copy, torch.tensor([1]))


def test_buffers_are_allocated_inside_the_saver_region(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    inside: list[bool] = []

    @contextmanager
    def region(tag: str) -> Generator[None]:
        entered.append(tag)
        yield
        inside.append(False)

    real = torch.zeros

    def zeros(*args: Any, **kwargs: Any) -> Any:
        inside.append(bool(entered))
        return real(*args, **kwargs)

    saver = SimpleNamespace(torch_memory_saver=SimpleNamespace(region=region))
    monkeypatch.setitem(sys.modules, "torch_memory_saver", saver)
    monkeypatch.setattr(torch, "zeros", zeros)
    make(enable_memory_saver=True)
    assert entered == ["kv_cache"]
    assert inside == [True] * 4 + [False]


def test_a_missing_saver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_memory_saver", None)
    with pytest.raises(ImportError, match="needs the package torch_memory_saver"):
        make(enable_memory_saver=True)


def test_requests_are_built_or_declined() -> None:
    built = build_reference_leaf(MHALeafRequest(**GEOMETRY, start_layer=5, v_head_dim=2))
    assert isinstance(built, MHALeaf)
    assert (built.start_layer, built.v_head_dim) == (5, 2)
    declined = build_reference_leaf(MHALeafRequest(**GEOMETRY, layout="packed_pages"))
    assert isinstance(declined, Declined)
    assert "layout='packed_pages'" in declined.reason


def test_traces_without_breaking_the_graph() -> None:
    leaf = make()

    def step(loc: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        leaf.set_kv_buffer(None, loc, k, k, layer_id_override=0)
        return leaf.get_key_buffer(0).float().sum()

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    assert compiled(torch.tensor([1, 0]), torch.ones(2, 2, 4)).item() == 8
