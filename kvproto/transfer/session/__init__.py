"""Two processes that move pages: what `kvproto.transfer` has that needs msgspec."""

from __future__ import annotations

from .destinations import PagesTaken
from .link import Link, open_link
from .receiver import Receiver
from .receiving import Receiving, ReceivingState
from .register import register_pools
from .reservation import PageNumbers, Reservation, page_numbers, reserve
from .sender import Sender
from .sending import Sending, SendingState
from .staging_memory import StagingOptions
from .transfer_error import OutOfPages, OutOfStaging, Phase, TransferError

__all__ = [
    "Link",
    "OutOfPages",
    "OutOfStaging",
    "PageNumbers",
    "PagesTaken",
    "Phase",
    "Receiver",
    "Receiving",
    "ReceivingState",
    "Reservation",
    "Sender",
    "Sending",
    "SendingState",
    "StagingOptions",
    "TransferError",
    "open_link",
    "page_numbers",
    "register_pools",
    "reserve",
]
