"""What plugins for Ascend devices got wrong, found by the kit on the device, and written down."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance.fault_nets import PAGE, SECTION, of_devices
from tests.devices.npu_faults import NPU_FAULTS, NPUFault, said_by_the_kit

on_device = cache(said_by_the_kit)


def test_without_a_fault_nothing_is_said() -> None:
    assert said_by_the_kit(None, "npu:0") == []


@pytest.mark.parametrize("fault", NPU_FAULTS, ids=lambda fault: fault.title)
def test_it_is_found_on_the_device_alone(fault: NPUFault) -> None:
    assert said_by_the_kit(fault, "cpu") == []
    assert on_device(fault, "npu:0")[0].startswith("leaf.write-read: ")


def test_the_page_says_what_the_kit_says() -> None:
    said = {fault.title: on_device(fault, "npu:0") for fault in NPU_FAULTS}
    written = PAGE.read_text().partition(SECTION)[2]
    assert written == of_devices(said), "python -m tests.conformance.fault_nets --write"
