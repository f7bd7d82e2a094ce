"""Why some accesses are less than 16 bytes wide: every reason there is."""

from __future__ import annotations

__all__ = ["NOT_ALIGNED", "SCALAR"]

SCALAR = {
    "alloc_decode": "each request has one length, one last slot and one new slot",
    "alloc_decode_pair": "as `alloc_decode`, and one entry of the table of peers",
    "alloc_extend": "slots begin where those of the request before end, at any multiple of 8 bytes",
    "alloc_extend_pair": "as `alloc_extend`",
    "alloc_pages_pair": "pages are read one by one, and with pages of 1 so are slots",
    "paged_locations": "the page behind each location is an entry of a table anywhere in it",
    "peer_locations": "the peer of each location is an entry of a table anywhere in it",
    "prefix_locations": "drafts may have any strides, and the length of a request is one number",
}
"""Operations that compute numbers and copy no rows: an access is one number, of 4 or 8 bytes."""

NOT_ALIGNED = {
    "vectorized_5d values": "a token's elements are 16 bytes apart, those beside each are others'",
    "pages of 1": "pages of one key and its scale are 132 bytes apart",
    "launch 3": "scales of 4 bytes are staged, those beside each are other tokens'",
    "launch 4": "as for launch 3, back from where they were staged",
}
"""Rows whose memory allows less: part of a shape's name, and why."""
