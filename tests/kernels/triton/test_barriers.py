"""A kernel that does not wait between reading and writing would be seen."""

from __future__ import annotations

import pytest

from tests.kernels.triton.barriers import accesses, waits

PTX = """
	@%p1 ld.global.b64 { %rd1 }, [ %rd2 + 0 ];
	bar.sync 	0;
	@%p1 st.global.v2.b64 [ %rd3 + 0 ], { %rd1, %rd1 };
"""
LLVM = """
  %9 = load <2 x i64>, ptr addrspace(1) %8, align 16
  fence syncscope("workgroup") release, !dbg !34{}
  call void @llvm.amdgcn.s.barrier(), !dbg !34
  fence syncscope("workgroup") acquire, !dbg !34{}
  store <2 x i64> %9, ptr addrspace(1) %11, align 16
"""


def test_barriers_of_global_memory_are_told_from_those_of_local() -> None:
    assert accesses(PTX, "cuda") == "LBS"
    assert accesses(LLVM.format("", ""), "hip") == "LBS"
    assert accesses(LLVM.format(*2 * (", !mmra !32",)), "hip") == "LS"


@pytest.mark.parametrize("order", ["LBS", "LLBBSS", "BLBS"])
def test_reading_then_waiting_then_writing(order: str) -> None:
    assert waits(order)


@pytest.mark.parametrize("order", ["LS", "BLS", "LBSLS", "LSB", "LBSL", "B"])
def test_no_wait_in_between(order: str) -> None:
    assert not waits(order)
