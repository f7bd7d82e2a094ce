"""Rows, keys and index rows of a device subset are where sglang's own pools put them."""

from __future__ import annotations

from tests.interop import report


def test_both_pools_hold_the_same(interop_python: str) -> None:
    found = report.answers_of(interop_python, "tests.interop.subset_pool")
    latent = {"rows", "index keys", "read back", "slots of ids", "slot 0 stays zero"}
    assert found["latent"] == dict.fromkeys(latent, True)
    assert found["by head"] == dict.fromkeys(("rows", "index rows", "slots of ids"), True)
