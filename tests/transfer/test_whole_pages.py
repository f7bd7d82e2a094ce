"""Pages of alike pools arrive as they were, whatever is in them, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvproto.transfer import IndexSpace, PoolManifest, describe, descriptors, negotiate
from tests.transfer.pools import BUILDERS, copy, fill, snapshot


def lists(manifest: PoolManifest) -> dict[IndexSpace, tuple[list[int], list[int]]]:
    """Pages 1 and 2 to where pages 2 and 1 are; of what has one page, that one."""
    found: dict[IndexSpace, tuple[list[int], list[int]]] = {}
    for space in manifest.spaces:
        found[space] = ([1, 2], [2, 1]) if manifest.capacity(space) > 2 else ([1], [1])
    return found


@pytest.mark.parametrize("name", BUILDERS)
def test_pages_arrive_as_they_were(name: str) -> None:
    sender, receiver = BUILDERS[name](), BUILDERS[name]()
    fill(sender, 1)
    fill(receiver, 2)
    local, remote = describe(sender), describe(receiver)
    sent, before = snapshot(local), snapshot(remote)
    pages = lists(local)
    copy(descriptors(negotiate(local, remote), pages))
    after, regions = snapshot(remote), remote.pool("target").regions
    for place, each in enumerate(regions):
        sources, targets = pages[each.space]
        for layer, held in enumerate(after[place]):
            expected = before[place][layer].copy()
            expected[targets] = sent[place][layer][sources]
            np.testing.assert_array_equal(held, expected, err_msg=f"{each.name}, layer {layer}")
    unchanged(local, sent)


def unchanged(manifest: PoolManifest, before: list[list[Any]]) -> None:
    """The sender's bytes are what they were."""
    for was, now in zip(before, snapshot(manifest), strict=True):
        for one, other in zip(was, now, strict=True):
            np.testing.assert_array_equal(one, other)
