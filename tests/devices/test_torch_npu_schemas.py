"""The stand-in's schemas are those of the real torch_npu, whichever of the two changes.

That it registers the lines compared here is asked on the device: `on_npu_standin.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.devices import wheel
from tests.devices.processes import ROOT

DATA = ROOT / "tests/devices/standins/npu/torch_npu/schemas.txt"
LINES = [line for line in DATA.read_text().splitlines() if not line.startswith("#")]
LIBRARIES = {"npu": "libtorch_npu.so", "atb": "libop_plugin_atb.so"}
library_bytes = cache(wheel.library_bytes)


def holds_whole(library: bytes, schema: str) -> bool:
    """The schema is a string of the library, from its beginning to its end."""
    return b"\0" + schema.encode() + b"\0" in library


def holds_pieces(library: bytes, schema: str) -> bool:
    """A compiler that builds a string in place leaves it in pieces, one after the other."""
    cut = range(0, len(schema), wheel.PIECE)
    return all(schema[at : at + wheel.PIECE].encode() in library for at in cut)


@pytest.mark.parametrize("line", LINES)
def test_the_wheel_has_the_schema(line: str) -> None:
    space, _, schema = line.partition("::")
    library = library_bytes(LIBRARIES[space])

    holds = holds_whole if space == "npu" else holds_pieces
    assert holds(library, schema), f"torch_npu {wheel.VERSION} has not: {schema}"


@pytest.mark.parametrize(
    ("was", "is_now"), [("'PA_NZ'", "'Norm'"), ("Tensor(a!) key_cache", "Tensor key_cache")]
)
def test_a_changed_schema_is_noticed(was: str, is_now: str) -> None:
    """What is compared is all of a schema, defaults and mutated arguments too."""
    changed = [line.replace(was, is_now).partition("::") for line in LINES if was in line]

    assert changed
    for space, _, schema in changed:
        holds = holds_whole if space == "npu" else holds_pieces
        assert not holds(library_bytes(LIBRARIES[space]), schema)


def test_the_operators_are_where_the_wheel_says() -> None:
    """Namespaces are no part of a schema's string: the wheel's own Python calls them so."""
    lazy = wheel.text("torch_npu/op_plugin/atb/_atb_ops.py")

    assert "'_npu_reshape_and_cache'" in lazy
    assert "getattr(torch.ops.atb, api_name)" in lazy
    assert "torch.ops.npu.npu_format_cast(" in wheel.text("torch_npu/onnx/wrapper_onnx_ops.py")


def test_without_the_registry_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wheel, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(wheel, "PYTHONS", ("311",))

    with pytest.raises(wheel.CannotDownload, match=r"could not be downloaded: .*torch-npu==2.14.0"):
        wheel.wheel()
