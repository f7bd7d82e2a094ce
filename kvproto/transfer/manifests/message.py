"""A manifest as bytes, over an engine's own exchange or over a socket, and back."""

from __future__ import annotations

from functools import cache
from typing import Any

from .manifest import MANIFEST_VERSION, PoolManifest
from .refusal import ManifestError
from .sealed import seal, unseal

__all__ = ["decode_manifest", "encode_manifest"]

_KIND = b"kvpm"


def encode_manifest(manifest: PoolManifest) -> bytes:
    """The message that `decode_manifest` of the same version reads; equal for equal manifests.

    :raises ImportError: without msgspec, which the extra `transfer` brings.
    """
    return seal(_KIND, manifest.version, _coders()[0].encode(manifest))


def decode_manifest(message: bytes) -> PoolManifest:
    """The manifest that a peer sent.

    :raises ManifestError: for bytes that are no whole manifest of this version, saying what is
        wrong: cut off, changed, of another version, or where in it a value cannot be.
    :raises ImportError: without msgspec.
    """
    payload = unseal(_KIND, MANIFEST_VERSION, message)
    _, decoder, faults = _coders()
    try:
        found: PoolManifest = decoder.decode(payload)
    except faults as error:
        raise ManifestError(f"message is no manifest: {error}") from None
    if found.version != MANIFEST_VERSION:
        raise ManifestError(
            f"message of version {MANIFEST_VERSION} holds a manifest of version {found.version}"
        )
    return found


@cache
def _coders() -> tuple[Any, Any, tuple[type[Exception], ...]]:
    """Encoder, decoder and what the latter raises."""
    try:
        from msgspec import DecodeError
        from msgspec.msgpack import Decoder, Encoder
    except ImportError as error:
        raise ImportError("messages need msgspec: pip install kvproto[transfer]") from error
    # A checked value may be refused by its own class, too: by ValueError, or by IndexError.
    return Encoder(), Decoder(PoolManifest), (DecodeError, ValueError, LookupError)
