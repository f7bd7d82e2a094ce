"""Whether a kernel leaves what its twin leaves, launched at once and replayed from a graph."""

from __future__ import annotations

from types import TracebackType

import torch

from benchmarks.kernel_cases import Case, Inputs, Place, tensors_of

__all__ = ["bulk_of", "differing", "run_all", "sizes_of", "wrong"]

BULK_BYTES = 256 << 20
_OTHER_SEED = 1


def wrong(case: Case, device: str) -> str:
    """What is wrong with a kernel at any of its sizes; empty for nothing."""
    said = (differing(case, device, tokens) for tokens in sizes_of(case, device))
    return next((each for each in said if each), "")


def sizes_of(case: Case, device: str) -> list[int]:
    """Every batch that is compiled for differently, and on a GPU the one that is timed."""
    return sorted({*case.tokens} if device == "cpu" else {*case.tokens, bulk_of(case)})


def differing(case: Case, device: str, tokens: int) -> str:
    """What is wrong with a kernel for so many tokens; empty where all bytes are its twin's."""
    place = Place(device, tokens, 4 * tokens)
    expected, launched = case.inputs(place), case.inputs(Place(device, tokens, 4 * tokens))
    with _twins(device):
        case.call(*expected)
    run_all(case, launched)
    if not _same(launched, expected):
        return f"for {tokens} tokens the kernel differs from its twin"
    if device == "cpu":
        return ""
    del expected, launched
    return _replayed(case, tokens)


def run_all(case: Case, inputs: Inputs) -> None:
    """Launch what the case plans."""
    from kvproto.kernels.triton.launch import run

    for launch in case.plan(*inputs):
        run(launch)


def bulk_of(case: Case) -> int:
    """How many tokens a case is timed with."""
    if case.bulk:
        return case.bulk
    few = 1024
    return few * BULK_BYTES // case.moves(*case.inputs(Place("meta", few, 2 * few)))


def _replayed(case: Case, tokens: int) -> str:
    """Capture the operation; put other numbers and locations where it reads, and replay it."""
    inputs = case.inputs(Place("cuda", tokens, 4 * tokens))
    case.call(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        case.call(*inputs)
    others = case.inputs(Place("cuda", tokens, 4 * tokens, _OTHER_SEED))
    for tensor, other in zip(tensors_of(inputs), tensors_of(others), strict=True):
        tensor.copy_(other)
    graph.replay()
    torch.cuda.synchronize()
    with _twins("cuda"):
        case.call(*others)
    if _same(inputs, others):
        return ""
    return f"for {tokens} tokens, replayed on other locations, it differs from its twin"


class _twins:
    """Operations are done by torch in this block."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __enter__(self) -> None:
        from kvproto.kernels import follow_platform

        follow_platform(self.device, False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from kvproto.kernels import follow_platform

        follow_platform(self.device, self.device != "cpu")


def _same(ours: Inputs, theirs: Inputs) -> bool:
    pairs = zip(tensors_of(ours), tensors_of(theirs), strict=True)
    return all(
        torch.equal(got.reshape(-1).view(torch.uint8), expected.reshape(-1).view(torch.uint8))
        for got, expected in pairs
    )
