"""Plain-Python models that allocators are held against, step by random step (needs hypothesis)."""

from __future__ import annotations

from .device_machine import DeviceMachine
from .page_model import Differs, Request, Space
from .pair_machine import PairMachine
from .play import play
from .pure_machine import PureMachine
from .slots_machine import SlotsMachine
from .state_rows_machine import StateRowsMachine

__all__ = [
    "DeviceMachine",
    "Differs",
    "PairMachine",
    "PureMachine",
    "Request",
    "SlotsMachine",
    "Space",
    "StateRowsMachine",
    "play",
]
