"""Every example in the README and in docs/ is executed.

- ```python blocks of a file run one after the other, in one namespace.
- ```console blocks: lines after `$ ` run in a shell, in a directory of the file's own, with this
  environment's commands on PATH. What follows must be the output, `...` standing for any
  text, in a line or as a line for any lines. Trailing blanks do not count.
- ```console no-run may hold `make` commands only: they would run the tests from the tests.
- ```python file=NAME is written to NAME in that directory first, for the commands after it.
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
NOT_RUN = {"text", "toml", "make", "yaml", "json", ""}

_FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    line: int
    info: str
    body: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Modules that an example writes are imported by later ones, and by no other page.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text()):
        run_block(block, page, namespace)


def blocks_of(text: str) -> Iterator[Block]:
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(line, fence["info"].strip(), fence["body"])


def run_block(block: Block, page: Path, namespace: dict[str, object]) -> None:
    place = f"{page.name}:{block.line}"
    if block.info == "console no-run":
        assert all(command.startswith("make") for command, _ in commands_of(block)), place
    elif block.info.startswith("python file="):
        file = Path(block.info.removeprefix("python file="))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.body)
    elif block.info == "python":
        source = "\n" * block.line + block.body
        exec(compile(source, str(page), "exec"), namespace)
    elif block.info == "console":
        for command, expected in commands_of(block):
            printed = output_of(command)
            if not matches(expected, printed):
                pytest.fail(f"{place}: $ {command}\n{printed}\nbut it says\n{expected}", False)
    else:
        assert block.language in NOT_RUN, f"{place}: ```{block.info} is not known to this test"


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


def test_blocks_and_commands() -> None:
    text = "# T\n```python\nx = 1\n```\n\n```console\n$ echo a \\\n>   b\na b\n$ true\n```\n"
    code, shell = blocks_of(text)
    assert (code.line, code.info, code.body) == (2, "python", "x = 1\n")
    assert list(commands_of(shell)) == [("echo a \\\n  b", "a b\n"), ("true", "")]
    assert output_of("echo a; echo b >&2; exit 3") == "a\nb\n"
