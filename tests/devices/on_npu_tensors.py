"""Tensors of an emulated device: what is the device's own, and what operators mean on it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

NPU = torch.device("npu:0")
RUNTIME = torch.get_device_module("npu")
BYTES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.uint8, torch.int8)
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, *BYTES)


def counted(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """0, 1, 2, ... on the CPU."""
    return torch.arange(int(torch.Size(shape).numel())).view(shape).to(dtype)


def test_a_tensor_says_its_device() -> None:
    tensor = torch.zeros(2, 3, device="npu")

    assert tensor.device == NPU
    assert torch.zeros(1, device="npu:1").device.index == 1
    assert RUNTIME.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("npu")


def test_memory_is_not_zero_before_it_is_written() -> None:
    assert torch.empty(5, device=NPU).isnan().all()
    assert torch.empty(5, device=NPU, dtype=torch.int32).eq(-1).all()


def test_views_share_the_address() -> None:
    tensor = torch.zeros(4, 8, device=NPU)

    assert tensor[2].data_ptr() == tensor.data_ptr() + 2 * 8 * 4
    assert tensor.view(torch.int16)[0, 1:].data_ptr() == tensor.data_ptr() + 2
    assert torch.zeros(1, device=NPU).data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize(
    "mixes",
    [
        lambda here, there: here + there,
        lambda here, there: there.add_(here),
        lambda here, there: torch.cat([here, there]),
        lambda here, there: here @ there.T,
        lambda here, there: here.index_copy_(0, torch.tensor([0], device=NPU), there[:1]),
        lambda here, there: here.index_copy_(0, torch.tensor([0]), here[:1].clone()),
        lambda here, there: here.index_select(0, torch.tensor([0])),
        lambda here, there: here.scatter_(0, torch.zeros(1, 3, dtype=torch.int64), 1.0),
        lambda here, there: torch.where(here > 0, here, there),
        lambda here, there: here.__setitem__(0, here[0] + there[0]),
    ],
)
@pytest.mark.parametrize("other", ["cpu", "npu:1"])
def test_devices_do_not_mix(mixes: Callable[[Tensor, Tensor], object], other: str) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        mixes(torch.zeros(3, 3, device=NPU), torch.ones(3, 3, device=other))


def test_what_may_be_of_the_cpu() -> None:
    """A scalar where elements are combined, and indices, as with other accelerators."""
    tensor = torch.zeros(3, device=NPU)

    tensor += torch.tensor(2.0)
    tensor[torch.tensor([1])] = torch.tensor(5.0)

    assert tensor.tolist() == [2.0, 5.0, 2.0]
    assert tensor[torch.tensor([1, 0])].tolist() == [5.0, 2.0]


def test_numpy_is_refused() -> None:
    with pytest.raises(TypeError, match="can't convert npu:0"):
        torch.zeros(1, device=NPU).numpy()


def test_there_are_two_devices() -> None:
    with pytest.raises(RuntimeError, match="no index 2"):
        torch.zeros(1, device="npu:2")


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_come_back(dtype: torch.dtype) -> None:
    expected = counted(6, 5).to(torch.uint8).repeat(1, 8).view(dtype)

    there = expected.to(NPU)

    assert there.device == NPU
    assert there.cpu().view(torch.uint8).equal(expected.view(torch.uint8))
    assert there.view(torch.uint8).to("npu:1").cpu().equal(expected.view(torch.uint8))


WRITES: list[Callable[[Tensor, torch.device], object]] = [
    lambda x, at: x[:, 1].copy_(torch.tensor([9, 8, 7, 6], device=at)),
    lambda x, at: x.t()[1:3, ::2].copy_(torch.tensor([[5, 6], [7, 8]], device=at)),
    lambda x, at: x[1:].index_copy_(0, torch.tensor([2, 0], device=at), torch.ones_like(x[:2])),
    lambda x, at: x[:, 2].index_fill_(0, torch.tensor([3, 1], device=at), 4),
    lambda x, at: x[::2].index_add_(1, torch.tensor([0, 0], device=at), x[:2, :2].clone()),
    lambda x, at: x[1:, 1:].scatter_(0, torch.tensor([[2, 1]], device=at), 11),
    lambda x, at: x.view(-1)[3:9].view(2, 3).mul_(-1),
    lambda x, at: x.view(torch.int32)[:, ::2].fill_(1),
    lambda x, at: x.view(torch.uint8)[2:].zero_(),
    lambda x, at: x.as_strided((2, 2), (3, 2), 4).add_(100),
    lambda x, at: x.__setitem__((slice(1, None), [0, 2]), 3),
    lambda x, at: x[1:].__setitem__(x[1:] % 2 == 0, 0),
    lambda x, at: x.unfold(1, 2, 1)[:, 1].fill_(5),
    lambda x, at: torch.add(x[:2], x[2:], out=x[:2]),
    lambda x, at: torch.ops.aten._foreach_add_.Scalar([x[0], x[2]], 1),
    lambda x, at: torch.ops.aten.set_.source_Tensor(x[2], x[0]).fill_(3),
    lambda x, at: x[3].swapaxes(0, 0).random_(1, 2),
    lambda x, at: x[1].masked_fill_(x[1] > 4, 1),
    lambda x, at: x[1:3].put_(torch.tensor([5, 0], device=at), torch.tensor([1, 2], device=at)),
]


@pytest.mark.parametrize("write", WRITES)
def test_writes_into_views_are_the_cpus(write: Callable[[Tensor, torch.device], object]) -> None:
    expected, tensor = counted(4, 3), counted(4, 3).to(NPU)

    write(expected, torch.device("cpu"))
    returned = write(tensor, NPU)

    assert tensor.cpu().equal(expected)
    assert not isinstance(returned, Tensor) or returned.device == NPU


def test_an_operator_in_place_returns_its_argument() -> None:
    tensor = torch.zeros(3, device=NPU)

    assert tensor.add_(1) is tensor
    assert tensor._version == 1


def test_overlap_is_refused() -> None:
    tensor = torch.arange(6, device=NPU)

    with pytest.raises(RuntimeError, match=r"overlap|single memory location"):
        tensor[1:].add_(tensor[:-1])


READS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.sum(0),
    lambda x: x.float().softmax(-1),
    lambda x: x.sort(descending=True).values,
    lambda x: x.nonzero(),
    lambda x: x[x > 4],
    lambda x: torch.ops.aten._unique2(x)[0],
    lambda x: x.cumsum(1).flip(0),
    lambda x: x // 4 + x % 3,
    lambda x: x // torch.tensor(4) + (2 - x).pow(2),
    lambda x: torch.cat([x, x[:, :1]], dim=1),
    lambda x: torch.stack(x.tensor_split([1], dim=1)[1].unbind(0)),
    lambda x: x.float().view(torch.int32) >> 3,
    lambda x: x.to(torch.float8_e4m3fn).view(torch.uint8),
    lambda x: x.unfold(0, 2, 1).contiguous(),
    lambda x: torch.empty(0, dtype=x.dtype, device=x.device).resize_(2, 2).copy_(x[:2, :2]),
    lambda x: torch.mm(x.float(), x.float().t(), out=torch.empty(0, device=x.device)),
    lambda x: torch.arange(3, device=x.device) + x,
    lambda x: torch.full_like(x, 7).bitwise_xor(x),
    copy.deepcopy,
    lambda x: x.clone(memory_format=torch.preserve_format).t().contiguous(),
    lambda x: x[1:, 1:].reshape(-1),
    lambda x: torch.nn.functional.pad(x, (0, 1)),
]


@pytest.mark.parametrize("read", READS)
def test_results_are_the_cpus(read: Callable[[Tensor], Tensor]) -> None:
    expected, found = read(counted(4, 3)), read(counted(4, 3).to(NPU))

    assert found.device == NPU
    assert found.cpu().equal(expected)
    assert found.stride() == expected.stride()


def test_a_storage_grows_and_keeps_its_bytes() -> None:
    tensor = torch.tensor([1, 2, 3], device=NPU)
    tensor.resize_(5)[3:] = 0
    tensor.untyped_storage().resize_(16)

    assert tensor[:2].tolist() == [1, 2]
    assert tensor.untyped_storage().nbytes() == 16


def test_described_without_memory() -> None:
    """A pool that no machine here has the memory for."""
    with FakeTensorMode():
        pool = torch.empty(15 << 30, dtype=torch.uint8, device="npu")
        rows = pool.view(torch.int8).view(15, -1, 128)[3]

    assert (pool.device, pool.nbytes) == (NPU, 15 << 30)
    assert (rows.device, tuple(rows.shape)) == (NPU, (1 << 23, 128))


def test_pinned_memory_is_the_hosts() -> None:
    pinned = counted(3).pin_memory()

    assert pinned.device.type == "cpu"
    assert pinned.is_pinned()
    assert not counted(3).is_pinned()
    assert pinned.to(NPU, non_blocking=True).tolist() == [0, 1, 2]


def test_streams_and_events_are_done() -> None:
    event = RUNTIME.Event()
    event.record(RUNTIME.current_stream())

    assert event.query()
    RUNTIME.synchronize()


def test_random_numbers_are_seeded_with_the_cpus() -> None:
    torch.manual_seed(3)
    first = torch.randn(4, device=NPU)
    torch.manual_seed(3)

    assert first.cpu().equal(torch.randn(4))
