"""Pages of leaves on an emulated device in host memory, and back to other pages.

torch opens no address of such a device: the bytes are shown out of the leaf's own planes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, HostLayout
from kvproto.transfer.host import HostCapacity, HostPool
from tests.adapters.npu.leaves import LEAVES, PAGE, SIZE, device_planes, write

import_module("torch_npu")  # as whoever has a device has done: it registers the operators

PAGES = SIZE // PAGE + 1


def opened(leaf: Any) -> Any:
    """What shows the bytes at an address of the leaf's."""
    planes = [plane.view(torch.uint8).view(-1) for plane in device_planes(leaf)]

    def open_bytes(address: int, nbytes: int, device: torch.device, /) -> Tensor:
        assert device.type == "npu"
        at = [(plane, address - plane.data_ptr()) for plane in planes]
        plane, first = next(each for each in at if 0 <= each[1] < each[0].numel())
        return plane[first : first + nbytes]

    return open_bytes


def page(leaf: Any, number: int) -> list[bytes]:
    """The bytes of a page: of every layer of every kind of row, by the leaf's regions."""
    show, device = opened(leaf), torch.device("npu:0")
    return [
        bytes(show(region.page_address(i, number), region.bytes_per_page, device).cpu().tolist())
        for region in leaf.buffer_regions()
        for i in region.layer_ids
    ]


@pytest.mark.parametrize("layout", get_args(HostLayout))
@pytest.mark.parametrize("name", LEAVES)
def test_pages_come_back_from_host_memory(name: str, layout: HostLayout) -> None:
    leaf = LEAVES[name]("npu")
    write(leaf, torch.arange(PAGE, PAGES * PAGE, device="npu"))
    before = [page(leaf, number) for number in range(PAGES)]
    assert before[1] != before[2]
    assert all(any(each) for each in before[1])
    pool = HostPool(leaf, layout, HostCapacity(3, "pages"), open_bytes=opened(leaf))
    host = pool.alloc(2)
    assert host is not None
    pool.backup([1, 2], host)
    pool.restore([2, 1], host)
    assert [page(leaf, number) for number in range(PAGES)] == [before[0], before[2], before[1]]
    regions: tuple[BufferRegion, ...] = leaf.buffer_regions()
    assert pool.nbytes == 3 * sum(r.bytes_per_page * len(r.bases) for r in regions)
