"""AMD Instinct devices: torch device type `cuda`, where `torch.version.hip` is set.

Rows of `nhd` and of `vectorized_5d` for attention by head, bare latent rows, index keys in tiles;
state, allocators and composites are the core's. gfx94x stores `e4m3fnuz`, gfx950 `e4m3fn`, and
neither is ever read as the other: what is asked for in another variant than the device's is
declined, and the scales that a checkpoint states for `e4m3fn` go through
`kvproto.protocols.checkpoint_scale` before they reach a pool or its reader. Under a given scale
rows of `e4m3fnuz` saturate at its end, 240; where a pool makes the scale itself, of weighed index
keys, their largest number becomes 224, half of `e4m3fn`'s 448, as engines have it.

Nobody who wrote this has run it on such a device. Its kernels are compiled for gfx942 and gfx950
(`docs/kernels.md`), interpreted, and compared with their torch twins, which host memory uses.
"""
