"""Our requests count the bytes that sglang's own pools allocate, and the padding of its slots."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.configurator.elements import planned_dtype
from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    bytes_of_pool,
    unified_entry_bytes,
)
from tests.interop import report
from tests.interop.split_cases import DRAFT, HOSTS, RANKS, SPLIT

BF16 = planned_dtype("bfloat16")


@pytest.fixture(scope="module")
def theirs(interop_python: str) -> dict[str, Any]:
    return report.answers_of(interop_python, "tests.interop.split_pools")


@pytest.mark.parametrize("name", SPLIT)
def test_index_keys_of_all_ranks(theirs: dict[str, Any], name: str) -> None:
    geometry = {key: value for key, value in SPLIT[name].items() if key != "kv_cache_dim"}
    request = DSALeafRequest(**geometry, dtype=BF16, device="cpu", dcp_size=RANKS)
    found = theirs["pools"][name]
    assert bytes_of_pool(request) == found["rows"] + found["keys"]
    # Pages of 64 keys, one of each rank; where rows are whole, sglang has the four in a row.
    page = 64 * (128 + 4)
    keys = [shape[0] * shape[1] for shape in found["pages"]]
    assert keys == [request.index_slots // request.index_page_size * page] * 2
    assert request.index_page_size == 64


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("fused", [False, True])
def test_slots_of_one_buffer(theirs: dict[str, Any], name: str, fused: bool) -> None:
    lanes = {key: value for key, value in DRAFT.items() if key != "lane_num"}
    draft = MHALeafRequest(**lanes, **_rows(DRAFT["lane_num"])) if fused else None
    found = theirs["entries"][f"{name}, {'fused' if fused else 'alone'}"]
    assert unified_entry_bytes(_host(name), draft) == found


def _host(name: str) -> LeafRequest:
    host = dict(HOSTS[name])
    rows = _rows(host.pop("layer_num"))
    return (
        MLALeafRequest(**host, **rows) if "kv_lora_rank" in host else MHALeafRequest(**host, **rows)
    )


def _rows(layer_num: int) -> dict[str, Any]:
    return {"layer_num": layer_num, "size": 1, "page_size": 1, "dtype": BF16, "device": "cpu"}
