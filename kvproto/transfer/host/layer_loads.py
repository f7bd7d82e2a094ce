"""Loads of one layer after another, and readers that wait for the layer they read."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["HostLoads", "LayerLoads", "LoadFailed", "StreamLoads", "layer_loads"]

LoadLayer = Callable[[int], None]
"""Brings the layer at a position of the stage, counted from 0."""


class LoadFailed(RuntimeError):
    """A layer that a reader waits for did not come; the cause is attached."""


class LayerLoads(ABC):
    """A `LayerTransferCounter` over loads that follow each other; before the first, nobody waits.

    Give it to a pool's `register_layer_transfer_counter`, and to that of the request table where
    there is recurrent state. Whoever starts a load has made sure that nobody reads or writes the
    pages until then.
    """

    @abstractmethod
    def start(self, load: LoadLayer) -> None:
        """Begin to load every layer in order, once the load before is over; returns at once.

        :raises LoadFailed: where the load before failed; the next call begins another.
        """

    @abstractmethod
    def wait_until(self, threshold: int, /) -> None:
        """Return when layer `threshold` of the stage is loaded, or is certain to be when read.

        :raises LoadFailed: where it was not.
        """

    @abstractmethod
    def finish(self) -> None:
        """Wait for the whole load; raises as `wait_until`."""


class HostLoads(LayerLoads):
    """Loads by a thread: in host memory, where a copy is done when its call returns."""

    def __init__(self, layer_num: int) -> None:
        self._arrived = [threading.Event() for _ in range(layer_num)]
        self._thread: threading.Thread | None = None
        self._failed: tuple[int, BaseException] | None = None

    def start(self, load: LoadLayer) -> None:
        """As `LayerLoads` says."""
        self.finish()
        for event in self._arrived:
            event.clear()
        self._thread = threading.Thread(target=self._run, args=(load,), daemon=True)
        self._thread.start()

    def wait_until(self, threshold: int, /) -> None:
        """As `LayerLoads` says."""
        if self._thread is None:
            return
        self._arrived[threshold].wait()
        if self._failed is not None and threshold >= self._failed[0]:
            raise _told(*self._failed)

    def finish(self) -> None:
        """As `LayerLoads` says."""
        if self._thread is None:
            return
        self._thread.join()
        failed, self._thread, self._failed = self._failed, None, None
        if failed is not None:
            raise _told(*failed)

    def _run(self, load: LoadLayer) -> None:
        for position, arrived in enumerate(self._arrived):
            try:
                load(position)
            except BaseException as cause:  # the reader's to raise, whatever it is
                self._failed = position, cause
                break
            arrived.set()
        for arrived in self._arrived:
            arrived.set()


def _told(position: int, cause: BaseException) -> LoadFailed:
    told = LoadFailed(f"layer {position} of the stage was not loaded: {cause}")
    told.__cause__ = cause
    return told


class StreamLoads(LayerLoads):
    """Loads on a stream of their own; a reader's stream waits, and the host never does.

    `streams` is `torch.get_device_module` of the device.
    """

    def __init__(self, layer_num: int, device: torch.device, streams: Any) -> None:
        self._streams, self._stream = streams, streams.Stream(device)
        self._arrived = [streams.Event() for _ in range(layer_num)]
        self._started = False

    def start(self, load: LoadLayer) -> None:
        """As `LayerLoads` says; what is on the current stream so far is done first."""
        self._started = True
        self._stream.wait_stream(self._streams.current_stream())
        with self._streams.stream(self._stream):
            for position, arrived in enumerate(self._arrived):
                load(position)
                arrived.record()

    def wait_until(self, threshold: int, /) -> None:
        """The current stream waits."""
        if self._started:
            self._streams.current_stream().wait_event(self._arrived[threshold])

    def finish(self) -> None:
        """The host waits."""
        self._stream.synchronize()


def layer_loads(layer_num: int, device: torch.device) -> LayerLoads:
    """By a thread in host memory, else by a stream of the device."""
    if device.type == "cpu":
        return HostLoads(layer_num)
    return StreamLoads(layer_num, device, torch.get_device_module(device))
