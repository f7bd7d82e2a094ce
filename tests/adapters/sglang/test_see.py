"""What is seen of a pool and of its parts; tests/interop/engine sees sglang's in its engine."""

from __future__ import annotations

from typing import Any

import torch

from kvproto.adapters.sglang import adopt_pools, see
from kvproto.adapters.sglang.leaves import SGLangMHALeaf
from kvproto.protocols import SizeReporting
from kvproto.reference import swa_pool
from tests.adapters.sglang.test_traits import pool_of


def test_a_pair_is_seen_with_its_leaves() -> None:
    rows: dict[str, Any] = {"page_size": 4, "dtype": torch.bfloat16, "device": "cpu"}
    full, window = (SGLangMHALeaf(8, head_num=1, head_dim=4, layer_num=1, **rows) for _ in "fw")
    pair: Any = swa_pool(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=(0,),
        swa_attention_layer_ids=(1,),
    )
    seen = see(pair)
    assert seen.traits == pair.pool_traits
    assert {"SWAComposite", "Transferable", "Movable"} <= seen.capabilities
    assert {"KVLeaf", "IndexerCapable"} & seen.capabilities == set()
    assert [name for name, _ in seen.leaves] == ["full_kv_pool", "swa_kv_pool"]
    assert all({"KVLeaf", "MHARows"} <= leaf.capabilities for _, leaf in seen.leaves)
    assert adopt_pools(pair) == (type(pair), SGLangMHALeaf)


def test_of_a_class_that_nobody_knows_only_abilities_are_seen() -> None:
    seen = see(pool_of("Mystery", module="acme.pools"))
    assert (seen.traits, seen.capabilities, seen.leaves) == (None, frozenset(), ())


def test_a_class_that_declares_nothing_answers_for_itself_once_adopted() -> None:
    class Late:
        """Assigns in `__init__`, as sglang's pools do."""

        def __init__(self) -> None:
            self.mem_usage = 1.0

        def get_kv_size_bytes(self) -> int:
            """What `SizeReporting` wants beside `mem_usage`."""
            return 1 << 30

    asked: Any = SizeReporting
    assert see(Late()).capabilities == {"SizeReporting"}
    assert not issubclass(Late, asked)
    assert adopt_pools(Late()) == (Late,)
    assert issubclass(Late, asked)
