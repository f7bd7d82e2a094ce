"""What `benchmarks/gpu.py` does without a GPU, and that it would see a wrong kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from benchmarks import gpu, gpu_check, gpu_tune
from benchmarks.gpu_timing import Timing
from benchmarks.kernel_cases import Case, Inputs, Place, all_cases, tensors_of
from kvproto.kernels.triton import gather_rows
from kvproto.kernels.triton.launch import Launch

Run = Callable[..., tuple[int, str]]


def case_of(operation: str) -> Case:
    return next(case for case in all_cases() if case.operation == operation)


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert "no GPU" in capsys.readouterr().out


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The script where all kernels are right, and take as long as they may."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(gpu, "copy_bandwidth", lambda: 1000.0)
    monkeypatch.setattr(gpu, "wrong", lambda case, device: "")
    monkeypatch.setattr(gpu, "timed", lambda case, copied: timing(case, case.goal))

    def run(*options: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["gpu", *options])
        return gpu.main(), capsys.readouterr().out

    return run


def timing(case: Case, share: float) -> Timing:
    return Timing(case, 64, 1000 * share, share, None, 0.5)


def test_all_right_is_a_success(on_a_gpu: Run) -> None:
    status, said = on_a_gpu()
    assert status == 0
    count = len(list(all_cases()))
    assert f"{count} of {count} timed" in said


def test_a_case_that_was_not_reached_is_no_success(on_a_gpu: Run) -> None:
    status, said = on_a_gpu("--seconds", "0", "--only", "gather_rows")
    assert status == 1
    reached = said.count("not reached in time, neither checked nor timed")
    assert reached == sum(case.operation == "gather_rows" for case in all_cases())


def test_the_clock_covers_checks(on_a_gpu: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(case: Case, device: str) -> str:
        now[0] += 100
        return ""

    monkeypatch.setattr("benchmarks.gpu.time.monotonic", lambda: now[0])
    monkeypatch.setattr(gpu, "wrong", slow)
    status, said = on_a_gpu("--seconds", "250")
    assert status == 1
    assert f"3 of {len(list(all_cases()))} timed" in said


def test_a_case_that_raises_is_reported_and_others_go_on(
    on_a_gpu: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = case_of("gather_rows")

    def raising(case: Case, device: str) -> str:
        if case.name == first.name:
            raise RuntimeError("out of shared memory\nand more")
        return ""

    monkeypatch.setattr(gpu, "wrong", raising)
    status, said = on_a_gpu("--only", "gather_rows")
    assert status == 1
    count = sum(case.operation == "gather_rows" for case in all_cases())
    assert f"{count - 1} of {count} timed" in said
    assert f"Missed: {first.name}: RuntimeError: out of shared memory.\n" in said


def test_a_missed_share_and_a_wrong_kernel_are_no_success(
    on_a_gpu: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "timed", lambda case, copied: timing(case, case.goal / 2))
    status, said = on_a_gpu("--only", "gather_rows")
    assert status == 1
    assert "of a copy, demanded" in said
    monkeypatch.setattr(gpu, "wrong", lambda case, device: "it differs")
    assert on_a_gpu("--only", "gather_rows")[0] == 1


def test_an_operation_that_is_none_is_refused(on_a_gpu: Run) -> None:
    with pytest.raises(SystemExit, match="2"):
        on_a_gpu("--only", "gather_row")


def test_tiles_are_swept_and_left_as_they_were(
    on_a_gpu: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of what is served is said to be fastest, and twice as much not to compile."""
    case = case_of("gather_rows")
    served, tried = gather_rows._TILE_BYTES, list[int]()

    def seconds(work: Callable[[], object]) -> float:
        work()
        tried.append(gather_rows._TILE_BYTES)
        if tried[-1] == 2 * served:
            raise RuntimeError("out of registers")
        return 1.0 + abs(tried[-1] - served // 2)

    found = gpu_tune.swept(replace(case, bulk=16), "cpu", seconds)
    assert (found.factor, found.gain) == (0.5, 1.0 + served // 2)
    assert tried == [int(served * factor) for factor in gpu_tune.FACTORS]
    assert served == gather_rows._TILE_BYTES
    monkeypatch.setattr(gpu, "swept", lambda case: found._replace(case=case))
    status, said = on_a_gpu("--tune")
    assert status == 0
    assert said.count("0.5 ") >= len({each.operation for each in all_cases()})


@pytest.mark.parametrize("factor", [gpu_tune.FACTORS[0], gpu_tune.FACTORS[-1]])
@pytest.mark.parametrize("operation", ["store_latent_rows", "load_latent_rows"])
def test_a_kernel_is_right_with_tiles_of_any_factor(operation: str, factor: float) -> None:
    case = case_of(operation)
    with gpu_tune.tiles_times(gpu_tune._module_of(case, "meta"), factor):
        assert gpu_check.differing(case, "cpu", 16) == ""


def test_it_sees_a_kernel_that_does_nothing() -> None:
    case = case_of("move_row_sets")
    assert gpu_check.wrong(case, "cpu") == ""
    lazy = replace(case, plan=nothing)
    message = f"for {min(case.tokens)} tokens the kernel differs from its twin"
    assert gpu_check.wrong(lazy, "cpu") == message


def test_it_sees_a_kernel_that_is_wrong_for_many_tokens_alone() -> None:
    case = case_of("move_row_sets")

    def few(buffers: list[torch.Tensor], tgt: torch.Tensor, src: torch.Tensor) -> Iterator[Launch]:
        yield from case.plan(buffers, tgt, src) if len(tgt) == min(case.tokens) else ()

    assert "for 200 tokens" in gpu_check.wrong(replace(case, plan=few), "cpu")


def nothing(*inputs: Inputs) -> Iterator[Launch]:
    yield from ()


def test_it_checks_every_size_and_the_one_that_is_timed() -> None:
    case = replace(case_of("store_row_sets"), tokens=(64, 8192))
    assert gpu_check.sizes_of(case, "cuda") == sorted([64, 8192, gpu_check.bulk_of(case)])


FIRST = list({case.operation: case for case in all_cases()}.values())


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.operation)
def test_a_captured_graph_fits_inputs_of_another_seed(case: Case) -> None:
    """Shapes are the same, what is in them is not."""
    pair = [case.inputs(Place("cpu", 16, 64, seed)) for seed in (0, 1)]
    first, second = (list(tensors_of(inputs)) for inputs in pair)
    assert [each.shape for each in first] == [each.shape for each in second]
    assert not all(map(torch.equal, first, second))


def test_bulks_are_as_large_as_they_are_said_to_be() -> None:
    case = case_of("store_row_sets")
    tokens = gpu_check.bulk_of(case)
    place = Place("meta", tokens, 2 * tokens)
    assert 0.9 < case.moves(*case.inputs(place)) / (256 << 20) <= 1.1


def test_every_operation_is_timed_before_one_is_timed_twice() -> None:
    cases = list(all_cases())
    operations = [case.operation for case in gpu.spread(cases)]
    kinds = len(set(operations))
    assert len(set(operations[:kinds])) == kinds
    assert len(operations) == len(cases)
