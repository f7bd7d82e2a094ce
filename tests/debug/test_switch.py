"""`KVPROTO_DEBUG`, in processes of their own: it is read once, when kvproto is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

PREPARE = """
import sys, torch
import kvproto
from kvproto import debug
from kvproto.reference import MHALeaf
assert "beartype" not in sys.modules
leaf = MHALeaf(
    size=8, page_size=2, dtype=torch.float32, head_num=2, head_dim=4, layer_num=1, device="cpu"
)
pool = debug.maybe_validate(leaf)
assert pool is leaf
"""

OFF = """
assert not debug.enabled()
assert type(pool) is MHALeaf
assert type(pool).set_kv_buffer is MHALeaf.__dict__["set_kv_buffer"]
assert "kvproto.debug._swap" not in sys.modules
assert "beartype" not in sys.modules
print("untouched")
"""

ON = """
assert debug.enabled()
loc, k = torch.tensor([2, 99]), torch.ones(2, 2, 4)
class Layer: layer_id = 0
pool.set_kv_buffer(Layer(), loc.clamp(max=9), k, k)
try:
    pool.set_kv_buffer(Layer(), loc, k, k)
except debug.ContractViolation as violation:
    print(violation)
"""

NO_BEARTYPE = """
import sys
sys.modules["beartype"] = None
"""


def run(code: str, value: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {} if value is None else {"KVPROTO_DEBUG": value}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("value", [None, "0"])
def test_off_nothing_is_wrapped(value: str | None) -> None:
    done = run(PREPARE + OFF, value)
    assert done.stdout == "untouched\n", done.stderr


@pytest.mark.parametrize("options", [(), ("-O",)])
def test_on_violations_are_caught_optimised_or_not(options: tuple[str, ...]) -> None:
    done = run(PREPARE + ON, "1", *options)
    wanted = "MHALeaf.set_kv_buffer: loc_info: expected locations below 10, got 99"
    assert done.stdout == f"{wanted} in int64[2] on cpu\n", done.stderr


def test_on_without_beartype_fails_with_one_clear_line() -> None:
    code = NO_BEARTYPE + PREPARE.replace('assert "beartype" not in sys.modules', "")
    done = run(code, "1")
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: kvproto debug mode needs beartype: pip install 'kvproto[debug]'"
