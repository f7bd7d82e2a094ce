"""Moore Threads devices: torch device type `musa`, which torch_musa registers.

Leaves and allocators are the core's, in the layouts that attention reads there: rows by head one
after another or by page, latent rows, index keys. Attention takes the page size from
`k_cache.shape[1]`: rows lie by page where a deployment asks for no layout. Of rows one after
another, `[-1, page, heads, dim]` is a view of what the read doors give. fp8 is
`e4m3fn` alone, and first read back (`fp8_check`).

Host memory is pinned as it is allocated, by torch, and never registered afterwards: so does
`kvproto.transfer.HostPool`.

Nobody who wrote this has run it on such a device: it has run over host memory, and on an emulated
`musa:0` (`tests/devices`).
"""
