"""What copies pages between the device and the host tier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from .layer_stack import layer_stacks
from .page_ids import PageRuns
from .page_views import PageViews

__all__ = ["PageCopies", "host_runs", "page_copies"]


class PageCopies(Protocol):
    """Pages of one or several layers, that are copied either way."""

    def to_host(self, runs: PageRuns) -> None:
        """Pages of the device to those of the tier, for each run."""
        ...

    def to_device(self, runs: PageRuns) -> None:
        """The other way."""
        ...


def page_copies(views: Sequence[PageViews]) -> Sequence[PageCopies]:
    """In host memory layers that lie evenly together; elsewhere layer by layer."""
    in_host_memory = all(view.device.is_cpu and view.host.is_cpu for view in views)
    return layer_stacks(views) if in_host_memory else views


def host_runs(runs: PageRuns) -> Iterator[tuple[int, list[int]]]:
    """`(first host page, device pages)` of stretches in which host pages go up by one."""
    first, pages = 0, list[int]()
    for device, host, count in runs:
        if pages and host != first + len(pages):
            yield first, pages
            pages = []
        if not pages:
            first = host
        pages.extend(range(device, device + count))
    if pages:
        yield first, pages
