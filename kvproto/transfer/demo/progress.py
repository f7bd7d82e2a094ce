"""How many pools of the demo are done: on a terminal, once it takes longer than a glance."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["Progress"]

_AFTER = 2.0


class Progress:
    """A bar on stderr, where that is a terminal and `rich` is installed; else nothing."""

    def __init__(self, total: int) -> None:
        self._total, self._begin = total, time.monotonic()
        self._is_shown = sys.stderr.isatty() and find_spec("rich") is not None
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int) -> None:
        """So many are done; nothing is drawn in the first two seconds."""
        if not self._is_shown or time.monotonic() - self._begin < _AFTER:
            return
        if self._bar is None:
            self._bar = _started(self._total)
        self._bar.update(self._bar.task_ids[0], completed=done)


def _started(total: int) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("pools"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("pools", total=total)
    bar.start()
    return bar
