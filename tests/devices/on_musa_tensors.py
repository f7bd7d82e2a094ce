"""The emulated device under its other name."""

from __future__ import annotations

import pytest
import torch


def test_the_device_is_called_musa() -> None:
    tensor = torch.arange(3, device="musa")

    assert tensor.device == torch.device("musa:0")
    assert torch.get_device_module("musa").is_available()
    assert (tensor + 1).cpu().tolist() == [1, 2, 3]


def test_another_vendors_name_is_unknown() -> None:
    with pytest.raises(RuntimeError, match="npu"):
        torch.zeros(1, device="npu")
