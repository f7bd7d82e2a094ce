"""Manifests as bytes: what is sent is what is read, and anything else is refused in one line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.protocols import BufferRegion, Field, PoolTraits, row_major
from kvproto.protocols.layout import ELEMENT_BYTES, ElementType, FieldName
from kvproto.protocols.traits import TRAIT_DOMAINS
from kvproto.transfer import (
    MANIFEST_VERSION,
    LeftOut,
    ManifestError,
    ManifestRegion,
    PoolManifest,
    PoolPart,
    decode_manifest,
    describe,
    encode_manifest,
)
from kvproto.transfer.manifests.sealed import HEADER_BYTES, seal, unseal
from tests.transfer.pools import BUILDERS

ELEMENTS: list[ElementType] = sorted(ELEMENT_BYTES)
NAMES: list[FieldName] = ["key", "value", "index_key", "key_scale", "state", "tail_key"]


@st.composite
def regions(draw: st.DrawFn) -> BufferRegion:
    page, heads, width = (draw(st.integers(1, 40)) for _ in range(3))
    element = draw(st.sampled_from(ELEMENTS))
    axes = row_major(element, ("token", page), ("head", heads), ("dim", width))
    nbytes = page * heads * width * ELEMENT_BYTES[element]
    layers = draw(st.lists(st.integers(0, 500), min_size=1, max_size=5, unique=True))
    base = draw(st.integers(1, 1 << 46)) * 4096
    return BufferRegion(
        layer_ids=tuple(layers),
        bases=tuple(base + 4096 * nbytes * i for i in range(len(layers))),
        page_count=draw(st.integers(1, 4096)),
        page_size=page,
        bytes_per_page=nbytes,
        fields=(Field(draw(st.sampled_from(NAMES)), element, axes),),
        page_stride=draw(st.sampled_from([nbytes, nbytes + 64])),
        alignment=draw(st.sampled_from([1, 64])),
    )


@st.composite
def described(draw: st.DrawFn) -> ManifestRegion:
    region = draw(regions())
    first, held = draw(st.integers(0, 64)), region.fields[0].shape[1]
    return ManifestRegion(
        space=draw(st.sampled_from(["full", "window", "state", "request"])),
        region=region,
        pages_per_item=draw(st.sampled_from([1, region.page_count])),
        heads=draw(st.sampled_from([None, (first, first + held)])),
    )


TRAITS = st.builds(
    PoolTraits,
    kind=st.sampled_from(TRAIT_DOMAINS["kind"]),
    layout=st.sampled_from(TRAIT_DOMAINS["layout"]),
    id_space=st.sampled_from(TRAIT_DOMAINS["id_space"]),
)
LEFT = st.builds(LeftOut, name=st.text(), nbytes=st.integers(0, 1 << 60), reason=st.text())


def parts(name: str) -> st.SearchStrategy[PoolPart]:
    return st.builds(
        PoolPart,
        name=st.just(name),
        page_size=st.just(16),
        traits=st.none() | TRAITS,
        regions=st.lists(described(), max_size=3).map(tuple),
        left_out=st.lists(LEFT, max_size=2).map(tuple),
    )


MANIFESTS = st.builds(
    PoolManifest,
    owner=st.text(),
    pools=st.tuples(parts("target")) | st.tuples(parts("target"), parts("draft")),
    conversion=st.sampled_from(["none", "staging"]),
)


@settings(max_examples=25, deadline=None)
@given(MANIFESTS)
def test_what_is_sent_is_what_is_read(manifest: PoolManifest) -> None:
    message = encode_manifest(manifest)
    assert decode_manifest(message) == manifest
    assert encode_manifest(decode_manifest(message)) == message


@pytest.mark.parametrize("name", BUILDERS)
def test_manifests_of_pools_are_read_as_they_are(name: str) -> None:
    manifest = describe(BUILDERS[name]())
    assert decode_manifest(encode_manifest(manifest)) == manifest


MESSAGE = encode_manifest(describe(BUILDERS["reference-hybrid-page16-tails"]()))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(MESSAGE) - 1), st.integers(1, 255))
def test_no_changed_byte_is_overlooked(place: int, change: int) -> None:
    wrong = bytearray(MESSAGE)
    wrong[place] ^= change
    with pytest.raises(ManifestError, match=r"^message "):
        decode_manifest(bytes(wrong))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(MESSAGE) - 1))
def test_no_cut_is_overlooked(length: int) -> None:
    with pytest.raises(ManifestError, match=r"^message cut off: "):
        decode_manifest(MESSAGE[:length])


def test_more_than_was_sent_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"^message too long: "):
        decode_manifest(MESSAGE + b"\0")


@pytest.mark.parametrize(("step", "age"), [(-1, "older"), (1, "newer")])
def test_other_versions_are_told_from_corrupt_bytes(step: int, age: str) -> None:
    manifest = describe(BUILDERS["reference-mla-bf16-page1"]())
    other = replace(manifest, version=MANIFEST_VERSION + step)
    with pytest.raises(ManifestError, match=f"the peer runs an {age} kvproto"):
        decode_manifest(encode_manifest(other))


def test_a_version_in_disguise_is_refused() -> None:
    other = replace(describe(BUILDERS["reference-mla-bf16-page1"]()), version=MANIFEST_VERSION + 1)
    payload = unseal(b"kvpm", MANIFEST_VERSION + 1, encode_manifest(other))
    with pytest.raises(ManifestError, match="holds a manifest of version"):
        decode_manifest(seal(b"kvpm", MANIFEST_VERSION, payload))


def test_other_messages_are_no_manifests() -> None:
    with pytest.raises(ManifestError, match=r"of kind b'kvpx', expected was b'kvpm'"):
        decode_manifest(seal(b"kvpx", MANIFEST_VERSION, MESSAGE[HEADER_BYTES:]))


WIDE = {
    "name": "latent",
    "element": "uint8",
    "axes": [
        {"name": "token", "tiles": [{"extent": 16, "stride": 1}]},
        {"name": "dim", "tiles": [{"extent": 4096, "stride": 0}]},
    ],
    "offset": 0,
}
"""As many elements as one likes, all in one place."""


def told(change: dict[str, object]) -> str:
    """What is said of a whole message whose first region has other values."""
    plain = msgspec.msgpack.decode(MESSAGE[HEADER_BYTES:])
    plain["pools"][0]["regions"][0]["region"] |= change
    with pytest.raises(ManifestError) as refused:
        decode_manifest(seal(b"kvpm", MANIFEST_VERSION, msgspec.msgpack.encode(plain)))
    return str(refused.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"page_count": "7"}, r"Expected `int`, got `str` - at `\$.pools[0].regions[0].region"),
        ({"bases": [1]}, "1 bases for 2 layers"),
        ({"bases": [-8, 8]}, "are no addresses"),
        ({"bases": [8, 1 << 63]}, "are no addresses"),
        ({"page_count": 0}, "0 pages, 1 to an item"),
        ({"page_stride": 1}, "bytes lie 1 apart"),
        ({"fields": [WIDE]}, "fields of 65536 bytes in pages of 768"),
        ({"fields": []}, "bytes a page"),
        ({"layer_ids": [3, 3]}, "a layer is named twice"),
        ({"alignment": 0}, "alignment 0: must be at least 1"),
        ({"registration_alignment": 0}, "registration_alignment 0: must be at least 1"),
        ({"registration_alignment": -4}, "registration_alignment -4: must be at least 1"),
    ],
)
def test_values_that_cannot_be_are_named(change: dict[str, object], why: str) -> None:
    text = told(change)
    assert text.startswith("message is no manifest: ")
    assert why.replace("\\", "") in text
    assert "\n" not in text


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whole_messages_of_nonsense_raise_nothing_else(data: st.DataObject) -> None:
    payload = bytearray(MESSAGE[HEADER_BYTES:])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_manifest(seal(b"kvpm", MANIFEST_VERSION, bytes(payload)))
    except ManifestError as error:
        assert str(error).startswith("message ")  # noqa: PT017  # some changes are legal values


def test_msgspec_is_loaded_with_the_first_message() -> None:
    """And where it is not installed, the message says what to install."""
    use = (
        "import sys, kvproto.transfer as t;"
        "part = t.PoolPart(name='target', page_size=1, traits=None, regions=());"
        "none = t.PoolManifest(owner='', pools=(part,));"
        "assert 'msgspec' not in sys.modules; sys.modules['msgspec'] = None;"
        "\ntry: t.encode_manifest(none)"
        "\nexcept ImportError as e: assert 'pip install kvproto[transfer]' in str(e)"
        "\nelse: raise SystemExit('encoded without msgspec')"
        "\ndel sys.modules['msgspec']; t.encode_manifest(none); assert 'msgspec' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", use], check=True)
