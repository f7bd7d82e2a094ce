"""What callers pass: each clause with a call that breaks it, refused before the pool is entered."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.debug import ContractViolation, validate
from kvproto.protocols import PoolTraits, WriteLocation, explain
from kvproto.reference import MHALeaf, MLALeaf
from tests.debug.toy import KEY, SIZE, VALUE, Layer, ToyPool, locations, refusal, rows


@pytest.fixture
def pool() -> ToyPool:
    return validate(ToyPool())


def good_write() -> dict[str, Any]:
    return {
        "layer": Layer(),
        "loc": locations(2, 3, 0),
        "cache_k": rows(3, KEY),
        "cache_v": rows(3, VALUE),
    }


def test_an_honest_call_goes_through_by_position_and_by_name(pool: ToyPool) -> None:
    pool.set_kv_buffer(*good_write().values())
    pool.set_kv_buffer(**good_write())
    assert pool.calls == ["set_kv_buffer"] * 2
    assert pool.get_key_buffer(0)[2].eq(1).all()


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("layer", 3, "layer: expected AttentionLayer, got int 3 (layer_id: missing)"),
        ("loc", [1, 2, 3], "loc_info: expected Tensor | WriteLocation, got a list of 3"),
        ("loc", locations(1, 2, 3).float(), "expected an int32 or int64 tensor, got float32[3]"),
        ("loc", locations(1, 2, 3).short(), "expected an int32 or int64 tensor, got int16[3]"),
        ("loc", locations(1, 2, 3)[:, None], "tensor of rank 1, got int64[3, 1] on cpu"),
        ("loc", locations(1), "cache_k: expected shape [1, 2, 4], got float32[3, 2, 4]"),
        ("loc", locations(1, 2, 10), "locations below 10, got 10 in int64[3] on cpu"),
        ("loc", locations(1, 2, 3).to("meta"), "a tensor on cpu, got int64[3] on meta"),
        ("cache_k", None, "cache_k: expected Tensor, got None"),
        ("cache_k", rows(2, KEY), "cache_k: expected shape [3, 2, 4], got float32[2, 2, 4]"),
        ("cache_k", rows(3, KEY).flatten(1), "expected shape [3, 2, 4], got float32[3, 8]"),
        ("cache_k", rows(3, KEY).int(), "cache_k: expected a float dtype, got int32[3, 2, 4]"),
        ("cache_k", rows(3, KEY).to("meta"), "cache_k: expected a tensor on cpu"),
        ("cache_v", rows(3, KEY), "cache_v: expected shape [3, 2, 3], got float32[3, 2, 4]"),
    ],
)
def test_a_write_with_one_wrong_argument(
    pool: ToyPool, argument: str, value: object, said: str
) -> None:
    message = refusal(pool.set_kv_buffer, **{**good_write(), argument: value})
    assert message.startswith("ToyPool.set_kv_buffer: ")
    assert said in message
    assert pool.calls == []


def test_legal_locations_are_let_through(pool: ToyPool) -> None:
    last = SIZE + 1
    for loc in (locations(0, 0, 0), locations(last, 2, 2), locations(2, 3, 4, dtype=torch.int32)):
        pool.set_kv_buffer(Layer(), loc, rows(3, KEY).half(), rows(3, VALUE).bfloat16())
    pool.set_kv_buffer(Layer(), locations(), rows(0, KEY), rows(0, VALUE))
    pool.get_cpu_copy(locations(-1))


def test_a_batch_of_locations_is_read_through_its_loc() -> None:
    class Tolerant(ToyPool):
        def set_kv_buffer(self, layer: Any, loc: Any, cache_k: Any, cache_v: Any) -> None:
            self.calls.append("set_kv_buffer")

    pool = validate(Tolerant())
    batch: Any = SimpleNamespace(loc=locations(2), swa_loc=None, full_loc=None, physical=False)
    assert explain(batch, WriteLocation) == []
    pool.set_kv_buffer(Layer(), batch, rows(1, KEY), rows(1, VALUE))
    batch.loc = locations(99)
    assert "got 99" in refusal(pool.set_kv_buffer, Layer(), batch, rows(1, KEY), rows(1, VALUE))
    batch.loc = [2]
    assert "got a list" in refusal(pool.set_kv_buffer, Layer(), batch, rows(1, KEY), rows(1, VALUE))


def test_a_call_that_does_not_fit_the_signature(pool: ToyPool) -> None:
    assert "missing a required argument: 'cache_v'" in refusal(
        pool.set_kv_buffer, Layer(), locations(2), rows(1, KEY)
    )
    assert "unexpected keyword argument 'k_scale'" in refusal(
        pool.set_kv_buffer, **good_write(), k_scale=1.0
    )


def test_an_argument_that_only_the_pool_makes_optional_is_still_required() -> None:
    class Lenient(ToyPool):
        def get_key_buffer(self, layer_id: int = 0) -> Any:
            return super().get_key_buffer(layer_id)

    pool: Any = validate(Lenient())
    assert "layer_id: expected int, got nothing" in refusal(pool.get_key_buffer)


def test_other_doors_of_a_leaf(pool: ToyPool) -> None:
    assert "layer_id: expected int, got str '0'" in refusal(pool.get_key_buffer, "0")
    assert "layer_transfer_counter: expected LayerTransferCounter, got a Layer" in refusal(
        pool.register_layer_transfer_counter, Layer()
    )


def test_moves(pool: ToyPool) -> None:
    pool.move_kv_cache(locations(2, 3), locations(4, 5))
    two, one = locations(2, 3), locations(4)
    assert "src_loc: expected as many locations as tgt_loc, 2, got int64[1]" in refusal(
        pool.move_kv_cache, two, one
    )
    assert "tgt_loc: expected locations below 10" in refusal(pool.move_kv_cache, two + 8, two)
    assert "src_loc: expected an int32 or int64" in refusal(pool.move_kv_cache, two, two.float())


def test_host_copies(pool: ToyPool) -> None:
    copy = pool.get_cpu_copy(locations(2, 3), mamba_indices=None, req_pool_index=4)
    pool.load_cpu_copy(copy, locations(4, 5))
    assert "indices: expected Tensor, got a list of 1" in refusal(pool.get_cpu_copy, [2])
    assert "indices: expected locations below" in refusal(pool.load_cpu_copy, copy, locations(12))
    assert "req_pool_index: expected int | None, got str 'x'" in refusal(
        pool.get_cpu_copy, locations(2), req_pool_index="x"
    )


def test_the_window_space(pool: ToyPool) -> None:
    assert "expected a table of rank 1, got int64[2, 2]" in refusal(
        pool.register_mapping, torch.zeros(2, 2, dtype=torch.int64)
    )
    assert "expected an int32 or int64 tensor" in refusal(pool.register_mapping, torch.zeros(2))
    pool.register_mapping(torch.tensor([0, 0, 1, 2, -1]))
    found = pool.translate_loc_from_full_to_swa(torch.tensor([[2], [-1]]))
    assert torch.equal(found, torch.tensor([[1], [-1]]))
    assert "kv_indices: expected locations below 4, got 4 in int64[1]" in refusal(
        pool.translate_loc_from_full_to_swa, locations(4)
    )


def test_a_pool_with_virtual_ids_takes_locations_beyond_its_size() -> None:
    class Virtual(ToyPool):
        pool_traits = PoolTraits(kind="mha", layout="nhd", id_space="virtual")

    pool = validate(Virtual())
    pool.move_kv_cache(locations(900), locations(901))
    assert pool.calls == ["move_kv_cache"]


def test_negative_locations_mean_no_write_and_are_legal(pool: ToyPool) -> None:
    pool.set_kv_buffer(**(good_write() | {"loc": locations(1, 2, -2)}))
    assert pool.calls == ["set_kv_buffer"]


def test_a_latent_pool_ignores_cache_v() -> None:
    class Latent(ToyPool):
        pool_traits = PoolTraits(kind="mla", layout="latent_rows")

        def __init__(self) -> None:
            super().__init__()
            del self.head_num, self.head_dim, self.v_head_dim
            self.keys = torch.zeros(2, SIZE + 2, 1, 6)
            self.values = self.keys[..., :4]

        def set_kv_buffer(self, layer: Any, loc: Any, cache_k: Any, cache_v: Any) -> None:
            self.calls.append("set_kv_buffer")

    pool = validate(Latent())
    latent = torch.ones(2, 1, 6)
    pool.set_kv_buffer(Layer(), locations(2, 3), latent, latent[..., :0])
    pool.get_kv_buffer(1)
    assert "cache_k: expected shape [1, *, *]" in refusal(
        pool.set_kv_buffer, Layer(), locations(2), latent, latent
    )


def test_a_leaf_of_latent_rows_takes_none_for_cache_v_and_one_of_heads_does_not() -> None:
    shared: dict[str, Any] = {"page_size": 4, "dtype": torch.float32, "device": "cpu"}
    latent = validate(MLALeaf(8, kv_lora_rank=4, qk_rope_head_dim=2, layer_num=1, **shared))
    latent.set_kv_buffer(Layer(), locations(5), torch.ones(1, 1, 6), None)
    latent.set_kv_buffer(None, locations(6), torch.ones(1, 1, 6), None, layer_id_override=0)
    assert latent.get_key_buffer(0)[5:7].eq(1).all()
    assert "cache_v: expected Tensor | None, got int" in refusal(
        latent.set_kv_buffer, Layer(), locations(5), torch.ones(1, 1, 6), 0
    )
    heads = validate(MHALeaf(8, head_num=1, head_dim=4, layer_num=1, **shared))
    assert "cache_v: expected Tensor, got None" in refusal(
        heads.set_kv_buffer, Layer(), locations(5), torch.ones(1, 1, 4), None
    )


class Options(ToyPool):
    """Serves ScaledWrite, LayerOverrideWrite and DCPMaskedWrite with one signature."""

    def set_kv_buffer(
        self,
        layer: Any,
        loc: Any,
        cache_k: Any,
        cache_v: Any,
        k_scale: Any = None,
        v_scale: Any = None,
        layer_id_override: Any = None,
        dcp_kv_mask: Any = None,
    ) -> None:
        self.calls.append("set_kv_buffer")


def test_an_option_belongs_to_the_protocol_that_names_it() -> None:
    pool: Any = validate(Options())
    write = tuple(good_write().values())
    pool.set_kv_buffer(*write, 1, torch.ones(()))  # an int is a float to every checker
    pool.set_kv_buffer(None, *write[1:], layer_id_override=1)
    pool.set_kv_buffer(*write, dcp_kv_mask=torch.ones(3, dtype=torch.bool))
    assert len(pool.calls) == 3
    assert "k_scale: expected float | Tensor | None, got str 'x'" in refusal(
        pool.set_kv_buffer, *write, "x"
    )
    assert "layer: expected AttentionLayer" in refusal(pool.set_kv_buffer, None, *write[1:])
    assert "dcp_kv_mask: expected bool[3], as many as rows, got bool[2]" in refusal(
        pool.set_kv_buffer, *write, dcp_kv_mask=torch.ones(2, dtype=torch.bool)
    )


def test_a_pool_that_collects_its_arguments_is_checked_too() -> None:
    class Collecting(ToyPool):
        def set_kv_buffer(self, *args: Any, **kwargs: Any) -> None:
            self.calls.append("set_kv_buffer")

    pool = validate(Collecting())
    write = good_write()
    pool.set_kv_buffer(*write.values(), k_scale=2.0)
    assert "cache_v: expected Tensor, got int 7" in refusal(
        pool.set_kv_buffer, *[*write.values()][:3], 7
    )
    assert "k_scale: expected float" in refusal(pool.set_kv_buffer, *write.values(), k_scale="x")


def test_the_violation_carries_its_parts_and_pickles(pool: ToyPool) -> None:
    assert {TypeError, ValueError, IndexError} <= set(ContractViolation.__mro__)
    with pytest.raises(TypeError) as caught:
        pool.get_key_buffer("0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    violation = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(violation, ContractViolation)
    parts = (violation.pool, violation.member, violation.argument, violation.expected)
    assert parts == ("ToyPool", "get_key_buffer", "layer_id", "int")
    assert violation.got == "str '0'"
