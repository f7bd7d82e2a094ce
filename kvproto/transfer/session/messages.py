"""What two peers say to each other beside the bytes: msgpack, of a version, a struct for each.

A version that a peer does not know is refused before anything else of the message is read.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from ..manifests.manifest import IndexSpace

__all__ = [
    "SESSION_VERSION",
    "Accepted",
    "Cancelled",
    "Declined",
    "Finished",
    "Hello",
    "Message",
    "MessageError",
    "Part",
    "Refused",
    "Role",
    "Settled",
    "Staging",
    "Wanted",
    "decode",
    "decode_part",
    "encode",
]

SESSION_VERSION = 2
"""Raised whenever a message means something else."""

Role: TypeAlias = Literal["sender", "receiver"]


class MessageError(ValueError):
    """Bytes that are no message of this version."""


class _Message(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    pass


class Hello(_Message, frozen=True, tag=True):
    """The first of each side: who it is, what its engine needs, what its pools hold.

    `session` is a number of this side's own that no other session of its engine has; `process`
    is its process, as `this_process` names it.
    """

    version: int
    role: Role
    session: int
    engine: str
    metadata: bytes
    manifest: bytes
    process: str = ""


class Refused(_Message, frozen=True, tag=True):
    """Why pages may not travel: instead of `Accepted`, or of what came. The session is over."""

    reasons: tuple[str, ...]


class Accepted(_Message, frozen=True, tag=True):
    """The second of each side: the other's `Hello` makes a plan."""


class Staging(_Message, frozen=True, tag=True):
    """Receiver to sender, where pages are converted: what its engine needs to write to staging.

    It is said once, before the first `Wanted`; the metadata is that of the engine of `Hello`.
    """

    metadata: bytes


class Wanted(_Message, frozen=True, tag=True):
    """Receiver to sender: write the pages of `key` to these pages, counted as in the plan.

    They have the first `tokens` tokens of it, those of the window the last of these. `transfer` is
    the receiver's number for it, never used twice in a session. What is converted goes to the
    address `staging` instead, laid out as `staging_places` of these pages; 0 where nothing is.
    """

    transfer: int
    key: str
    tokens: Annotated[int, msgspec.Meta(ge=0)]
    pages: dict[IndexSpace, tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)], ...]]
    staging: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0


class Cancelled(_Message, frozen=True, tag=True):
    """Receiver to sender: write no more of a transfer, and answer `Settled`."""

    transfer: int
    reason: str


class Settled(_Message, frozen=True, tag=True):
    """Sender to receiver: nothing of a transfer is, or will be, on its way; why it is not whole.

    Without a reason it is whole: a transfer of no bytes, of which nothing else would tell.
    """

    transfer: int
    reason: str


class Declined(_Message, frozen=True, tag=True):
    """Receiver to sender: the pages of `key` will not be wanted, and why; until it is `Wanted`."""

    key: str
    reason: str


class Finished(_Message, frozen=True, tag=True):
    """Sender to receiver, the last: nothing of any transfer is, or will be, on its way."""


Message: TypeAlias = (
    Hello | Refused | Accepted | Staging | Wanted | Cancelled | Settled | Declined | Finished
)


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A notification: pages `page_begin .. page_end - 1` of a transfer's list have these steps.

    Steps count the layers that travel, as `steps_of` has them; `session` is the receiver's.
    """

    session: int
    transfer: int
    space: IndexSpace
    step_begin: int
    step_end: int
    page_begin: int
    page_end: int


_ENCODER = msgspec.msgpack.Encoder()
_MESSAGES: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_PARTS = msgspec.msgpack.Decoder(Part)


class _Versioned(msgspec.Struct):
    version: int = SESSION_VERSION


_VERSIONS = msgspec.msgpack.Decoder(_Versioned)


def encode(message: Message | Part) -> bytes:
    """The bytes of a message, or of a notification."""
    return _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """The message.

    :raises MessageError: for another version, or what is no message.
    """
    try:
        version = _VERSIONS.decode(data).version
        if version != SESSION_VERSION:
            raise MessageError(f"session version {version} there, {SESSION_VERSION} here")
        return _MESSAGES.decode(data)
    except msgspec.MsgspecError as error:
        raise MessageError(f"what came is no message of this version: {error}") from error


def decode_part(data: bytes) -> Part:
    """The notification.

    :raises MessageError: for what is none.
    """
    try:
        return _PARTS.decode(data)
    except msgspec.MsgspecError as error:
        raise MessageError(f"what came is no notification: {error}") from error
