"""What is said of sglang's pools, without sglang; tests/interop/gates asks the real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.adapters.sglang import declares, traits_of
from kvproto.adapters.sglang.traits import known_classes
from kvproto.gates import load_profile
from kvproto.protocols import PoolTraits


def pool_of(name: str, *bases: type, module: str = "sglang.srt.mem_cache", **built: Any) -> Any:
    """An object of a class of that name, with the attributes that a constructor would set."""
    pool = type(name, bases, {"__module__": module})()
    vars(pool).update(built)
    return pool


ROWS: dict[str, Any] = {"dtype": torch.bfloat16, "kv_cache_layout": "nhd"}


def test_a_subclass_that_nobody_knows_is_what_its_base_is() -> None:
    base = type(pool_of("MLATokenToKVPool"))
    pool = pool_of("AcmePool", base, module="acme.pools", dtype=torch.bfloat16)
    assert declares(pool, kind="mla", replication="tp_replicated")


def test_a_class_of_the_same_name_from_elsewhere_is_none_of_sglangs() -> None:
    assert traits_of(pool_of("MLATokenToKVPool", module="acme.pools")) is None
    assert declares(pool_of("MLATokenToKVPool", module="acme.pools"), kind="mla") is False
    assert declares(None, kind="mla") is False


def test_what_a_pool_declares_comes_first() -> None:
    declared = PoolTraits(kind="mha", layout="hnd")
    pool = pool_of("MLATokenToKVPool", dtype=torch.bfloat16, pool_traits=declared)
    assert traits_of(pool) is declared


@pytest.mark.parametrize(
    ("dtype", "scheme", "variant"),
    [
        (torch.bfloat16, "none", "none"),
        (torch.float8_e4m3fn, "fp8_scaled", "e4m3fn"),
        (torch.float8_e5m2, "fp8_scaled", "e5m2"),
    ],
)
def test_the_type_of_rows(dtype: torch.dtype, scheme: Any, variant: Any) -> None:
    pool = pool_of("MHATokenToKVPool", kv_cache_layout="nhd", dtype=dtype)
    assert declares(pool, kind="mha", layout="nhd", quant_scheme=scheme, fp8_variant=variant)


def test_a_composite_is_replicated_as_its_leaf_is() -> None:
    latent = pool_of("MLATokenToKVPool", dtype=torch.bfloat16)
    heads = pool_of("MHATokenToKVPool", **ROWS)
    assert declares(pool_of("SWAKVPool", full_kv_pool=latent), replication="tp_replicated")
    assert declares(pool_of("SWAKVPool", full_kv_pool=heads), replication="tp_sharded")
    traits = PoolTraits(kind="mla", layout="latent_rows", replication="tp_replicated")
    vendors = SimpleNamespace(pool_traits=traits)
    assert declares(pool_of("SWAKVPool", full_kv_pool=vendors), replication="tp_replicated")
    alien = pool_of("SWAKVPool", full_kv_pool=SimpleNamespace())
    assert declares(alien, kind="swa", replication="tp_sharded")


def test_the_profile_knows_every_class_that_is_known_here() -> None:
    assert known_classes() <= set(load_profile("sglang").classes)
    assert len(known_classes()) > 30
