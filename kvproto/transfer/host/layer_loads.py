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

        :raises LoadFailed: where the load before failed, and `finish` has not said so; nothing is
            begun, and the next call begins another.
        """

    @abstractmethod
    def wait_until(self, threshold: int, /) -> None:
        """Return when layer `threshold` of the stage is loaded, or is certain to be when read.

        :raises LoadFailed: where it was not.
        """

    @abstractmethod
    def finish(self) -> None:
        """Wait for the whole load; raises as `wait_until`, at every call until the next `start`."""


class _Outcome:
    """Where a load stopped, and why; kept until the next load begins."""

    def __init__(self) -> None:
        self.failed: tuple[int, BaseException] | None = None
        self._is_told = False

    def check(self, threshold: int) -> None:
        """Raise if layer `threshold` did not come."""
        if self.failed is not None and threshold >= self.failed[0]:
            position, cause = self.failed
            told = LoadFailed(f"layer {position} of the stage was not loaded: {cause}")
            raise told from cause

    def check_whole(self, layer_num: int) -> None:
        """Raise if any layer did not come."""
        self._is_told = True
        self.check(layer_num)

    def check_untold(self, layer_num: int) -> None:
        """Raise if any did not, and nobody who waited for the whole load knows."""
        if not self._is_told:
            self.check_whole(layer_num)


class _ThreadLoad(_Outcome):
    """One load by a thread: its readers hold on to it, whatever begins after it."""

    def __init__(self, layer_num: int, load: LoadLayer) -> None:
        super().__init__()
        self.arrived = [threading.Event() for _ in range(layer_num)]
        self.thread = threading.Thread(target=self._run, args=(load,), daemon=True)

    def _run(self, load: LoadLayer) -> None:
        for position, arrived in enumerate(self.arrived):
            try:
                load(position)
            except BaseException as cause:  # the reader's to raise, whatever it is
                self.failed = position, cause
                break
            arrived.set()
        for arrived in self.arrived:
            arrived.set()


class HostLoads(LayerLoads):
    """Loads by a thread: in host memory, where a copy is done when its call returns."""

    def __init__(self, layer_num: int) -> None:
        self._layer_num = layer_num
        self._load: _ThreadLoad | None = None

    def start(self, load: LoadLayer) -> None:
        """As `LayerLoads` says."""
        if self._load is not None:
            self._load.thread.join()
            self._load.check_untold(self._layer_num)
        begun = _ThreadLoad(self._layer_num, load)
        begun.thread.start()
        self._load = begun

    def wait_until(self, threshold: int, /) -> None:
        """As `LayerLoads` says."""
        if (load := self._load) is not None:
            load.arrived[threshold].wait()
            load.check(threshold)

    def finish(self) -> None:
        """As `LayerLoads` says."""
        if (load := self._load) is not None:
            load.thread.join()
            load.check_whole(self._layer_num)


class StreamLoads(LayerLoads):
    """Loads on a stream of their own; a reader's stream waits, and the host never does.

    `streams` is `torch.get_device_module` of the device.
    """

    def __init__(self, layer_num: int, device: torch.device, streams: Any) -> None:
        self._streams, self._stream = streams, streams.Stream(device)
        self._arrived = [streams.Event() for _ in range(layer_num)]
        self._load: _Outcome | None = None

    def start(self, load: LoadLayer) -> None:
        """As `LayerLoads` says; what is on the current stream so far is done first."""
        if self._load is not None:
            self._load.check_untold(len(self._arrived))
        begun = self._load = _Outcome()
        self._stream.wait_stream(self._streams.current_stream())
        with self._streams.stream(self._stream):
            for position, arrived in enumerate(self._arrived):
                try:
                    load(position)
                except Exception as cause:  # the reader's to raise, as on the host
                    begun.failed = position, cause
                    return
                arrived.record()

    def wait_until(self, threshold: int, /) -> None:
        """The current stream waits."""
        if self._load is not None:
            self._load.check(threshold)
            self._streams.current_stream().wait_event(self._arrived[threshold])

    def finish(self) -> None:
        """The host waits."""
        self._stream.synchronize()
        if self._load is not None:
            self._load.check_whole(len(self._arrived))


def layer_loads(layer_num: int, device: torch.device) -> LayerLoads:
    """By a thread in host memory, else by a stream of the device."""
    if device.type == "cpu":
        return HostLoads(layer_num)
    return StreamLoads(layer_num, device, torch.get_device_module(device))
