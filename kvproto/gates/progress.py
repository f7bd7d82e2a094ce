"""A progress bar over files (needs `rich`); silent where nobody looks at a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

__all__ = ["Progress"]


class Progress:
    """To be used in a `with`; `done` is what a scan tells."""

    def __init__(self) -> None:
        columns = (TextColumn("files"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("files", total=None)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def done(self, finished: int, total: int) -> None:
        """Show that so many of all files are finished."""
        self._bar.update(self._task, completed=finished, total=total)
