"""One run's process, from outside: it serves model after model and is told what to do."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.interop.engine.trees import Run, RunFailed, end, environment

__all__ = ["Session"]

OPTIONS = {
    "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_ENABLE_TREE_CACHE_SANITY_CHECK": "1",
    "SGLANG_EXTERNAL_MODEL_PACKAGE": "tests.interop.engine.served",
    "SGLANG_SWA_EVICTION_INTERVAL": "8",
}
"""sglang looks for lost slots, and for slots freed twice, after every batch and not when idle
alone; it frees window slots 8 at a time, not 128, and imports few models."""


class Session:
    """A process of `whole_engine` in a group of its own, which ends with the block.

    It writes to a folder of its own; settings come in the order given.
    """

    def __init__(self, python: str, run: Run, *settings: str) -> None:
        self.run: Run = run
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        self._said = (folder / "said").open("w+")
        self._process = subprocess.Popen(
            [python, "-m", "tests.interop.engine.whole_engine", str(folder), *settings],
            env=environment(python, run, str(folder)) | OPTIONS,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end(self._process)
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                stream.close()
        self._scratch.cleanup()

    def ask(self, command: str, *, seconds: int = 300) -> dict[str, Any]:
        """What the process answers.

        :raises RunFailed: where it ends, says nothing for so long, or tells of an error.
        """
        self.tell(command)
        return self.answer(command, seconds=seconds)

    def tell(self, command: str) -> None:
        """Ask, and do not wait: `answer` must follow."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": command}) + "\n")
        except BrokenPipeError:
            raise RunFailed(self._failure(command, "ended")) from None

    def answer(self, command: str, *, seconds: int = 300) -> dict[str, Any]:
        """What was asked for with `tell`; raises as `ask` does."""
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], seconds)
        line = out.readline() if ready else ""
        if not line:
            why = "ended" if ready else f"said nothing for {seconds} s"
            raise RunFailed(self._failure(command, why))
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise RunFailed(self._failure(command, told["error"]))
        return told

    def _failure(self, command: str, why: str) -> str:
        self._said.seek(0)
        end_of_it = [line[:300] for line in self._said.read().splitlines()[-40:]]
        return "\n".join([f"run {self.run}, {command}: {why}", *end_of_it])
