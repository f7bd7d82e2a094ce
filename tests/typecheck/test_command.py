"""`kvproto typecheck`: real checkers on honest and on broken classes."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest

from kvproto.typecheck import run
from kvproto.typecheck._checkers import command_of
from tests.typecheck.checking import REPOSITORY

BROKEN = """
    from torch import Tensor

    class BrokenPool:
        page_size = "16"

        def get_contiguous_buf_infos(self) -> tuple[list[int], list[int]]:
            return [], []

        def get_cpu_copy(
            self,
            indices: Tensor,
            mamba_slots: Tensor | None = None,
            req_pool_index: int | None = None,
        ) -> object:
            return indices

        async def load_cpu_copy(self, kv_cache_cpu: object, indices: Tensor) -> None: ...
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the user's home; kept between runs, since mypy needs 20 seconds to learn torch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(REPOSITORY / ".mypy_cache" / "command"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(module: str, source: str) -> None:
    Path(f"{module}.py").write_text(dedent(source))


def test_an_honest_pool_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("typecheck.vendors.acme:AcmePool") == 0
    out, err = capsys.readouterr()
    assert "KVLeaf: fits\n  fine: end_layer, layer_num, store_dtype\n" in out
    assert "fits 7 of 7 protocols, say mypy and pyright" in out
    assert not err


@pytest.mark.usefixtures("here")
def test_a_verdict_per_member(capsys: pytest.CaptureFixture[str]) -> None:
    write("broken_pool", BROKEN)
    assert run("broken_pool:BrokenPool", protocols=["Transferable"]) == 1
    out = capsys.readouterr().out
    assert out == dedent("""\
        Transferable: 3 findings
          get_contiguous_buf_infos  (say mypy and pyright)
            expected  () -> tuple[list[int], list[int], list[int]]
            came      () -> tuple[list[int], list[int]]
            why       Tuple size mismatch; expected 3 but received 2
          maybe_get_custom_mem_pool  (say mypy and pyright)
            expected  () -> object | None
            came      nothing, the class has no such member
          page_size  (say mypy and pyright)
            expected  int
            came      str
            why       "str" is not assignable to "int"

        broken_pool:BrokenPool fits 0 of 1 protocol, say mypy and pyright
    """)


@pytest.mark.usefixtures("here")
def test_an_inherited_member_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "odd_leaf",
        """
        from typecheck.vendors.acme import AcmePool

        class OddLeaf(AcmePool):
            def get_value_buffer(self, layer_id: str) -> object: ...  # type: ignore
        """,
    )
    protocols = ["KVPool", "KVLeaf"]
    assert run("odd_leaf:OddLeaf", protocols=protocols, checkers=["pyright"]) == 1
    out = capsys.readouterr().out
    assert out.count("  get_value_buffer  (says pyright)") == 1
    assert "KVPool: 1 finding\n" in out
    assert "KVLeaf: 1 of those above\n  fine: end_layer, layer_num, store_dtype\n" in out


@pytest.mark.usefixtures("here")
def test_a_renamed_keyword_and_an_async_door(capsys: pytest.CaptureFixture[str]) -> None:
    write("renaming_pool", BROKEN)
    assert run("renaming_pool:BrokenPool") == 1
    out = capsys.readouterr().out
    assert "fits 0 of 2 protocols" in out
    assert out.endswith("; choose with --protocol NAME\n")
    assert 'Parameter name mismatch: "mamba_indices" versus "mamba_slots"' in out
    assert "CoroutineType[Any, Any, None]" in out


@pytest.mark.usefixtures("here")
def test_one_checker_alone(capsys: pytest.CaptureFixture[str]) -> None:
    write("alone_pool", BROKEN)
    assert run("alone_pool:BrokenPool", protocols=["Transferable"], checkers=["mypy"]) == 1
    out = capsys.readouterr().out
    assert "came      () -> tuple[list[int], list[int]]" in out
    assert "pyright" not in out


@pytest.mark.usefixtures("here")
def test_unannotated_members_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    write("bare_pool", "class BarePool:\n    def move_kv_cache(self, tgt_loc, src_loc): ...\n")
    assert run("bare_pool:BarePool") == 0
    assert "not annotated, so checkers believe anything: move_kv_cache" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_a_member_set_to_none_is_no_claim(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "no_move",
        """
        class Fixed:
            move_kv_cache = None
            def get_kv_layer_ids(self) -> list[int]: ...
        """,
    )
    assert run("no_move:Fixed", checkers=["pyright"]) == 0
    assert "Movable" not in capsys.readouterr().out
    assert run("no_move:Fixed", protocols=["Movable"], checkers=["pyright"]) == 1
    assert "came      None" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_a_package_below_the_current_directory() -> None:
    Path("below/deep").mkdir(parents=True)
    Path("below/deep/__init__.py").touch()
    Path("below/deep/pools.py").write_text(
        "class Outer:\n    class Inner:\n        def get_kv_layer_ids(self) -> list[int]:\n"
        "            return []\n"
    )
    assert run("below.deep.pools:Outer.Inner") == 0


def test_settings_here_do_not_count_and_nothing_is_left(here: Path) -> None:
    write("plain", "class Plain:\n    def get_kv_layer_ids(self) -> list[str]: ...\n")
    Path("pyproject.toml").write_text("[tool.mypy]\nignore_errors = true\n")
    Path("pyrightconfig.json").write_text('{"typeCheckingMode": "off"}')
    before = set(here.iterdir())
    for checker in ("mypy", "pyright"):
        assert run("plain:Plain", checkers=[checker]) == 1
    assert {path for path in here.iterdir() if path.name != "__pycache__"} == before


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("target", "protocols", "says"),
    [
        ("no_such_module:Pool", None, "cannot import no_such_module: ModuleNotFoundError: "),
        ("raising:Pool", None, "cannot import raising: RuntimeError: no device"),
        ("leaving:Pool", None, "cannot import leaving: SystemExit: 3"),
        ("wrong:Pol", None, "wrong has no Pol; did you mean Pool?"),
        ("wrong:Pool.inner", None, "Pool has no inner"),
        ("wrong:make", None, "wrong:make is no class, but of type function"),
        ("wrong:number", None, "wrong:number is no class, but of type int"),
        ("kvproto.protocols:KVLeaf", None, "kvproto.protocols:KVLeaf is a protocol"),
        ("wrong", None, "'wrong' is not of the form module:Class"),
        ("wrong:", None, "'wrong:' is not of the form module:Class"),
        ("a b:Pool", None, "'a b:Pool' is not of the form module:Class"),
        (":Pool", None, "':Pool' is not of the form module:Class"),
        ("acme/pool.py:Pool", None, "is a path; name the module: acme.pool:Pool"),
        ("wrong:Pool", None, "less than half the members of every protocol"),
        ("wrong:Pool", ["KVLeef"], "no protocol is named 'KVLeef'; there are "),
    ],
)
def test_bad_input(
    target: str, protocols: list[str] | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("raising", "raise RuntimeError('no device\\nand more')")
    write("leaving", "raise SystemExit(3)")
    write("wrong", "class Pool: ...\ndef make() -> Pool: ...\nnumber = 3\n")
    assert run(target, protocols=protocols) == 2
    out, err = capsys.readouterr()
    assert not out
    assert says in err
    assert err.startswith("kvproto typecheck: ")
    assert len(err.splitlines()) == 1


def test_an_unknown_name_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    run("wrong:Pool", protocols=["nothing"])
    err = capsys.readouterr().err
    assert "KVLeaf" in err
    assert "SWACapable" in err


@pytest.mark.usefixtures("here")
def test_a_checker_that_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("lonely", "class Lonely:\n    def get_kv_layer_ids(self) -> list[int]: ...\n")

    def without_mypy(checker: str) -> list[str] | None:
        return None if checker == "mypy" else command_of(checker)

    monkeypatch.setattr("kvproto.typecheck._run.command_of", without_mypy)
    assert run("lonely:Lonely") == 0
    out, err = capsys.readouterr()
    assert "says pyright" in out
    assert (
        err == "kvproto typecheck: mypy is not installed and says nothing here: pip install mypy\n"
    )
    assert run("lonely:Lonely", checkers=["mypy"]) == 2
    assert "pip install 'kvproto[typecheck]'" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_class_the_checkers_cannot_see(capsys: pytest.CaptureFixture[str]) -> None:
    write("made", "Made = type('Made', (), {'get_kv_layer_ids': lambda self: []})\nMade = Made\n")
    assert run("made:Made", checkers=["mypy"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("kvproto typecheck: mypy cannot look at made:Made: ")
    assert second == "kvproto typecheck: no checker could look at made:Made"


def test_a_checker_that_breaks_down(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(_: str) -> list[str]:
        return [os.path.join(os.sep, "bin", "false")]

    monkeypatch.setattr("kvproto.typecheck._run.command_of", command)
    assert run("typecheck.vendors.acme:AcmePool", checkers=["pyright"]) == 2
    assert "pyright broke down with exit status 1" in capsys.readouterr().err
