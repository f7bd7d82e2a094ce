"""Huawei Ascend devices, torch device type `npu`.

`platform.py` is the door, `facts.py` what is known without a device. Leaves keep the rows of one
kind and all layers in one tensor (`planes.py`, `memory.py`): keys and values (`mha.py`), the
latent and the rope part of a row, in ND or NZ order (`mla.py`, `split_rows.py`), packed rows and
index keys (`dsa.py`, `packed_rows.py`, `index_planes.py`), index rows by head (`sparse.py`,
`key_only.py`). `operators.py` and `gather.py` call torch_npu on a device, and torch elsewhere.
`split_buffers.py` is what a host tier exchanges of latent rows.

Rows are in ND order, but for latents without index keys of a deployment that asks for NZ
(`latent_layout`). Heads are kept in ND alone, though the writer in pages takes them in NZ too.

What is here was read: schemas in torch_npu 2.14.0, the vendor's manuals for Atlas A2 and A3, and
the source of an engine that serves on these devices. Nobody has run it on hardware. What follows
from the reading alone, and a device may contradict:

- `npu_scatter_pa_kv_cache` skips slots below 0, and takes keys and values of different widths;
- `npu_gather_pa_kv_cache` takes int8, as which fp8 rows are handed over;
- moves, host copies and reads by slot are torch's `index_select` and `index_copy_`, on uint8 too;
- fp8 is quantised by torch's own cast, e4m3fn only, which A2 and A3 may not have;
- an operator that reads NZ finds 32 elements of one byte together, where an engine writes 16;
- planes are allocated with up to 4 MiB more each, so that start and length are multiples of 2 MiB.
"""
