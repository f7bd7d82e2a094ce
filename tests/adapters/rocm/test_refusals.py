"""Elements that rows of the devices do not have are declined, with the reason."""

from __future__ import annotations

import pytest
import torch

from tests.adapters.rocm.leaves import FNUZ, PLATFORMS, declined, heads, latents, on_each


@on_each
@pytest.mark.parametrize("element", [torch.int8, torch.uint8, torch.float64])
def test_elements_that_no_row_has_are_declined_not_raised(
    dtype: torch.dtype, element: torch.dtype
) -> None:
    own = "e4m3fnuz" if dtype == FNUZ else "e4m3fn"
    for asked in (heads(dtype=element), latents(dtype=element)):
        assert declined(PLATFORMS[dtype], asked) == (
            f"dtype={element}: rows are torch.bfloat16, torch.float16, torch.float32, "
            f"torch.float8_{own}; ask for one of those"
        )
