"""A manifest as bytes: msgpack, whose version is looked at before the rest is."""

from __future__ import annotations

import msgspec

from .manifest import MANIFEST_VERSION, PoolManifest
from .refusal import ManifestError

__all__ = ["decode_manifest", "encode_manifest"]


class _Versioned(msgspec.Struct):
    version: int


def encode_manifest(manifest: PoolManifest) -> bytes:
    """The bytes that `decode_manifest` reads."""
    return msgspec.msgpack.encode(manifest)


def decode_manifest(data: bytes) -> PoolManifest:
    """The manifest.

    :raises ManifestError: for another version, for what is no manifest, or contradicts itself.
    """
    try:
        version = msgspec.msgpack.decode(data, type=_Versioned).version
        if version != MANIFEST_VERSION:
            raise ManifestError(f"manifest: version: {MANIFEST_VERSION} here, {version} there")
        return msgspec.msgpack.decode(data, type=PoolManifest)
    except msgspec.MsgspecError as error:
        raise ManifestError(f"what came is no manifest: {error}") from error
