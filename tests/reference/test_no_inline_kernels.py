"""What is done to rows, locations and pages is in `kvproto.kernels`; the reference calls it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvproto.reference

FOLDER = Path(kvproto.reference.__file__).parent

OPERATIONS = {
    *("as_strided", "bincount", "bucketize", "clamp", "clamp_", "cumsum", "div", "floor_divide"),
    *("index_add_", "index_copy_", "index_fill_", "index_put", "index_put_", "index_select"),
    *("isin", "masked_fill", "masked_fill_", "masked_scatter_", "masked_select", "nonzero", "put_"),
    *("remainder", "repeat_interleave", "scatter", "scatter_", "scatter_add_", "scatter_reduce_"),
    *("searchsorted", "take_along_dim", "unique", "unique_consecutive", "where"),
}
"""Methods and functions of torch that index, or compute what is indexed with."""

LOCATIONS = {
    *("allocated_indices", "free_index", "free_indices", "ids", "indices", "inside", "kv_indices"),
    *("last_loc", "loc", "loc_2d", "pages", "req_pool_indices", "slots", "src_loc", "tgt_loc"),
}
"""What this package calls tensors of locations and of pages."""

_NUMPY = "numpy arrays of page ids in host memory: accounts of an allocator, no rows"
ALLOWED = {
    ("envelope_layout.py", "as_strided"): "a view of the buffer, handed to consumers",
    ("free_list.py", "pages[...]"): "names strangers in an error, or drops zeros where one waits",
    ("device_pages.py", "pages[...]"): "strict only, which waits: zeros name no page",
    ("host_free_list.py", "pages[...]"): _NUMPY,
    ("host_free_list.py", "_state[pages]"): _NUMPY,
    ("host_free_list.py", "state[pages]"): _NUMPY,
    ("host_pages.py", "slots // or %"): _NUMPY,
    ("interleaved_allocator.py", "pages[...]"): "names strangers in an error",
    ("mapped_pair.py", "pages[...]"): "for allocators of others, which take no page 0",
    ("pure_swa_allocator.py", "slots[...]"): "for an allocator of others, which takes no slot 0",
    ("request_pool.py", "req_to_token[indices]"): "the caller's own index, of any kind",
    ("scale_layout.py", "slots // or %"): "a whole number, of a shape",
    ("sparse_index.py", "ids[...]"): "a dictionary of layers",
    ("swa_ring.py", "slots // or %"): "a whole number, checked when built",
}
"""File and operation, and why it stays."""


def found_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and operation of everything that belongs into a kernel."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in OPERATIONS:
                yield node.lineno, name
            case ast.Call(func=ast.Attribute(attr="gather"), args=[ast.Constant(), *_]):
                yield node.lineno, "gather"
            case ast.Subscript(value=of, slice=index) if not isinstance(index, ast.Slice):
                if name := _location(index):
                    yield node.lineno, f"{ast.unparse(of).removeprefix('self.')}[{name}]"
                elif _location(of) and isinstance(index, ast.Compare | ast.UnaryOp | ast.Name):
                    yield node.lineno, f"{ast.unparse(of)}[...]"
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod()) if name := _location(left):
                yield node.lineno, f"{name} // or %"
            case _:
                pass


def _location(node: ast.expr) -> str:
    """Its name, if it is a location, also one that something is done to."""
    match node:
        case ast.Name(id=name) if name in LOCATIONS:
            return name
        case ast.Call(func=ast.Attribute(value=of)):
            return _location(of)
        case _:
            return ""


FOUND = [
    (file.name, line, operation)
    for file in sorted(FOLDER.glob("*.py"))
    for line, operation in found_in(file.read_text())
]


def test_nothing_is_indexed_outside_of_kernels() -> None:
    strays = [
        f"{name}:{line} {operation}"
        for name, line, operation in FOUND
        if (name, operation) not in ALLOWED
    ]
    assert not strays, "move it to kvproto/kernels, or name the reason in ALLOWED"


def test_what_is_allowed_is_there() -> None:
    assert set(ALLOWED) <= {(name, operation) for name, _, operation in FOUND}


@pytest.mark.parametrize(
    ("source", "operation"),
    [
        ("buffer.index_copy_(0, loc, rows)", "index_copy_"),
        ("torch.where(loc > 0, loc, 0)", "where"),
        ("buffer.gather(0, index)", "gather"),
        ("self.buffer[loc] = rows", "buffer[loc]"),
        ("rows = self.buffer[pages.clone()]", "buffer[pages]"),
        ("pages = loc // page_size", "loc // or %"),
        ("offset = loc % page_size", "loc // or %"),
        ("kept = pages[pages > 0]", "pages[...]"),
    ],
)
def test_it_sees(source: str, operation: str) -> None:
    assert [found for _, found in found_in(source)] == [operation]


@pytest.mark.parametrize(
    "source",
    [
        "store.gather(indices)",
        "first = pages[:2]",
        "layer = self.buffers[layer_id]",
        "count = size // page_size",
        "free_index[:: self.page_size]",
    ],
)
def test_it_does_not_mind(source: str) -> None:
    assert not list(found_in(source))
