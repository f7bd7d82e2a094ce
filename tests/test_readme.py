"""Every example in the README and in docs/ is executed.

- ```python blocks of a file run one after the other, in one namespace.
- ```console blocks: lines after `$ ` run in a shell, in a directory of the file's own, with this
  environment's commands on PATH. What follows must be the output, `...` standing for any
  text, in a line or as a line for any lines. Trailing blanks do not count.
  `$ cd FOLDER` and `$ export NAME=VALUE` hold for all that follows. KVPROTO is this repository.
- ```console no-run may hold `make` commands only: they would run the tests from the tests.
- ```python file=NAME, or of another language, is written to NAME first, for the commands after it.
- With of=FOLDER the block is the file NAME of that folder, to the letter, and ```python part=NAME
  of=FOLDER is lines of it: what a page shows of this repository is what is there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
NOT_RUN = {"text", "toml", "sh", "make", "yaml", "json", ""}

_FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    line: int
    info: str
    body: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def options(self) -> dict[str, str]:
        """What follows the language as NAME=VALUE."""
        words = (word.partition("=") for word in self.info.split(" ")[1:])
        return {name: value for name, _, value in words if value}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    took_effect(f"cd {tmp_path}", monkeypatch)
    # Modules that an example writes are imported by later ones, and by no other page.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("KVPROTO", str(REPOSITORY))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text()):
        run_block(block, page, namespace, monkeypatch)


def blocks_of(text: str) -> Iterator[Block]:
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(line, fence["info"].strip(), fence["body"])


def run_block(
    block: Block, page: Path, namespace: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{page.name}:{block.line}"
    if block.info == "console no-run":
        assert all(command.startswith("make") for command, _ in commands_of(block)), place
    elif "file" in block.options:
        assert block.body == source_of(block, "file"), f"{place}: not what is in the repository"
        file = Path(block.options["file"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.body)
    elif "part" in block.options:
        assert block.body in source_of(block, "part"), f"{place}: not what is in the repository"
    elif block.info == "python":
        source = "\n" * block.line + block.body
        exec(compile(source, str(page), "exec"), namespace)
    elif block.info == "console":
        for command, expected in commands_of(block):
            if took_effect(command, monkeypatch):
                continue
            printed = output_of(command)
            if not matches(expected, printed):
                pytest.fail(f"{place}: $ {command}\n{printed}\nbut it says\n{expected}", False)
    else:
        assert block.language in NOT_RUN, f"{place}: ```{block.info} is not known to this test"


def source_of(block: Block, option: str) -> str:
    """The file of this repository that the block shows; the block itself where it shows none."""
    if option == "file" and "of" not in block.options:
        return block.body
    return (REPOSITORY / block.options["of"] / block.options[option]).read_text()


def took_effect(command: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether it was one for the commands after it, rather than to be run."""
    match command.split(" ", 1):
        case ["cd", folder]:
            monkeypatch.chdir(os.path.expandvars(folder))
            monkeypatch.setenv("PWD", os.getcwd())
        case ["export", setting]:
            name, _, value = setting.partition("=")
            monkeypatch.setenv(name, os.path.expandvars(value))
        case _:
            return False
    return True


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """Each command with the output that is claimed of it."""
    parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    assert not parts[0].strip(), f"line {block.line}: output without a command"
    for part in parts[1:]:
        command, _, expected = part.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command = f"{command}\n{more.removeprefix('> ')}"
        yield command, expected


def output_of(command: str) -> str:
    """What a reader sees in a terminal of 100 columns: stdout and stderr as they come."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        command,
        shell=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def matches(expected: str, printed: str) -> bool:
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    wild = [r"(?:.*\n)*" if line.strip() == "..." else f"{inline(line)}\n" for line in lines]
    text = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(wild), text) is not None


def inline(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("..."))


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a  \nb\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("...\n", "", True),
        ("took ... s\n", "took 1.5 s\n", True),
        ("took ... s\n", "took 1\n2 s\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_matches(expected: str, printed: str, *, same: bool) -> None:
    assert matches(expected, printed) is same


def test_options_and_lasting_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block(1, "python part=test_readme.py of=tests", "def inline(line: str) -> str:\n")
    assert block.options == {"part": "test_readme.py", "of": "tests"}
    assert block.body in source_of(block, "part")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVPROTO", str(REPOSITORY))
    assert took_effect("cd $KVPROTO", monkeypatch)
    assert took_effect("export THERE=$KVPROTO/docs", monkeypatch)
    assert output_of("pwd; echo $THERE") == f"{REPOSITORY}\n{REPOSITORY}/docs\n"
    assert not took_effect("cdrecord", monkeypatch)


def test_blocks_and_commands() -> None:
    text = "# T\n```python\nx = 1\n```\n\n```console\n$ echo a \\\n>   b\na b\n$ true\n```\n"
    code, shell = blocks_of(text)
    assert (code.line, code.info, code.body) == (2, "python", "x = 1\n")
    assert list(commands_of(shell)) == [("echo a \\\n  b", "a b\n"), ("true", "")]
    assert output_of("echo a; echo b >&2; exit 3") == "a\nb\n"
