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
from .transfer_error import OutOfPages, Phase, TransferError

__all__ = [
    "Link",
    "OutOfPages",
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
    "TransferError",
    "open_link",
    "page_numbers",
    "register_pools",
    "reserve",
]
