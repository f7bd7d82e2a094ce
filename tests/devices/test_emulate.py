"""The emulation where it must stop: without a compiler, at the host's hands, on a false alarm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices import build_extension
from tests.devices.processes import ROOT, files_on, run_module, run_tests

READS_BY_ADDRESS = """
import ctypes, torch
tensor = torch.ones(4, device="npu:0")
print("before", flush=True)
ctypes.string_at(tensor.data_ptr(), 16)
print("after", flush=True)
"""

TESTS_GONE_WRONG = """
import pytest, torch
def test_right(): assert torch.ones(1, device="npu").item() == 1
def test_wrong(): assert torch.ones(1, device="npu").item() == 2
def test_absent(): pytest.skip("no hardware")
@pytest.fixture
def broken(): raise OSError("no set-up")
def test_unset(broken): ...
"""
WENT_WRONG = {"test_wrong", "test_absent", "test_unset"}


def test_each_vendor_has_tests() -> None:
    assert "tests/devices/on_npu_tensors.py" in files_on("npu")
    assert "tests/devices/on_musa_tensors.py" in files_on("musa")


def test_the_host_cannot_reach_device_memory(tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text(READS_BY_ADDRESS)
    build_extension.library()

    done = subprocess.run(
        [sys.executable, "-m", "tests.devices.emulate", "npu", str(tmp_path / "reads.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("before\n", -11), done.stderr


def test_what_did_not_run_is_a_problem(tmp_path: Path) -> None:
    (wrong, broken) = (tmp_path / "on_npu_wrong.py", tmp_path / "on_npu_broken.py")
    wrong.write_text(TESTS_GONE_WRONG)
    broken.write_text("import no_such_module")

    verdicts = run_tests("npu", [str(wrong), str(broken)])

    assert [verdicts[str(file)].passed for file in (wrong, broken)] == [1, 0]
    problems = verdicts[str(wrong)].problems
    assert {problem.partition(":")[0] for problem in problems} >= WENT_WRONG
    assert "No module named 'no_such_module'" in "".join(verdicts[str(broken)].problems)


def test_a_module_that_fails_says_how_it_ended() -> None:
    with pytest.raises(RuntimeError, match=r"no_such_module on npu ended with status 1"):
        run_module("npu", "no_such_module")


def test_without_a_compiler_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build_extension, "CACHE", tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(build_extension.NoCompiler, match=r"no no-such-compiler: install g\+\+"):
        build_extension.library()


def test_a_failed_build_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build_extension, "CACHE", tmp_path)
    monkeypatch.setattr(build_extension, "FLAGS", ("-std=none",))

    with pytest.raises(build_extension.NoCompiler, match=r"did not compile: .*-std=none"):
        build_extension.library()
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]
