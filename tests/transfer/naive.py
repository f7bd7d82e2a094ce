"""What has to travel, from the regions' own addresses: one byte, one loop, no plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvproto.protocols import BufferRegion, Field
from kvproto.transfer import IndexSpace, PoolManifest

__all__ = ["element_moves", "page_moves"]

Move = tuple[int, int, int]
"""Local address, remote address, bytes."""


def page_moves(
    local: PoolManifest, remote: PoolManifest, pages: Mapping[IndexSpace, tuple[Sequence[int], ...]]
) -> Iterator[Move]:
    """Whole pages of every layer of alike manifests, page by page, each by itself."""
    for mine, theirs in zip(local.pools, remote.pools, strict=True):
        for here, there in zip(mine.regions, theirs.regions, strict=True):
            for layer_id in here.region.layer_ids[: len(here.region.bases)]:
                for a, b in zip(*pages.get(here.space, ((), ())), strict=True):
                    times = here.pages_per_item
                    for step in range(times):
                        yield (
                            here.region.page_address(layer_id, a * times + step),
                            there.region.page_address(layer_id, b * times + step),
                            here.region.bytes_per_page,
                        )


def element_moves(
    local: BufferRegion,
    remote: BufferRegion,
    layer_id: int,
    tokens: Sequence[tuple[int, int]],
    heads: Sequence[tuple[int, int]] = (),
) -> Iterator[Move]:
    """Element by element: global token slots of both sides, and heads by their place in each.

    Token `t` is token `t % page_size` of page `t // page_size` of its own side.
    """
    for here, there in zip(local.fields, remote.fields, strict=True):
        if here.name == "padding":
            continue
        for mine, theirs in tokens:
            for a, b in _rows(local.in_layer(layer_id, here), heads):
                yield (
                    _address(local, layer_id, mine, here, a),
                    _address(remote, layer_id, theirs, there, b),
                    here.element_bytes,
                )


def _address(
    region: BufferRegion, layer_id: int, token: int, field: Field, index: tuple[int, ...]
) -> int:
    page, rest = divmod(token, region.page_size)
    return region.address(layer_id, page, rest, *index, field=field.name)


def _rows(
    field: Field, heads: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every index of a row at both ends; of the head axis only the pairs given, if any are."""
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    for axis in field.axes[1:]:
        steps = [(i, i) for i in range(axis.size)]
        if axis.name == "head" and heads:
            steps = list(heads)
        found = [((*a, i), (*b, j)) for a, b in found for i, j in steps]
    yield from found
