"""Messages between processes: their kind and version, and whether they arrived whole."""

from __future__ import annotations

import hashlib
import struct

from .refusal import ManifestError

__all__ = ["HEADER_BYTES", "seal", "unseal"]

_HEADER = struct.Struct(">4sIQ32s")
"""Kind, version, bytes of the payload, and the SHA-256 of all that and of the payload."""

HEADER_BYTES = _HEADER.size
"""What stands before the payload of every message."""


def seal(kind: bytes, version: int, payload: bytes) -> bytes:
    """A message: header and payload. `kind` is four bytes, the same on both sides."""
    digest = _digest(kind, version, payload)
    return _HEADER.pack(kind, version, len(payload), digest) + payload


def unseal(kind: bytes, version: int, message: bytes) -> bytes:
    """The payload of a message of that kind and version.

    :raises ManifestError: for other bytes: cut off, too long, changed on the way, of another kind
        or of an older or newer version.
    """
    if len(message) < HEADER_BYTES:
        raise ManifestError(
            f"message cut off: {len(message)} bytes, its header alone has {HEADER_BYTES}"
        )
    told, written_by, length, digest = _HEADER.unpack_from(message)
    if told != kind:
        raise ManifestError(f"message is of kind {told!r}, expected was {kind!r}")
    if written_by != version:
        age = "older" if written_by < version else "newer"
        raise ManifestError(
            f"message of version {written_by}, this side reads {version}: the peer runs an {age} "
            "kvproto, run the same on both sides"
        )
    payload = message[HEADER_BYTES:]
    if len(payload) != length:
        state = "cut off" if len(payload) < length else "too long"
        raise ManifestError(f"message {state}: {len(payload)} bytes of payload, told were {length}")
    if _digest(kind, version, payload) != digest:
        raise ManifestError("message is corrupt: its digest is another")
    return payload


def _digest(kind: bytes, version: int, payload: bytes) -> bytes:
    return hashlib.sha256(struct.pack(">4sIQ", kind, version, len(payload)) + payload).digest()
