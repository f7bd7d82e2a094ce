"""Facts of the devices, known without them and without torch."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

__all__ = ["DEVICE_TYPE", "NPU", "NZ_BYTES", "PAGE_SIZE"]

DEVICE_TYPE = "npu"
"""The torch device type that `torch_npu` registers."""

PAGE_SIZE = 128
"""Token slots of a page where a deployment does not choose."""

NZ_BYTES = 32
"""Bytes that NZ order keeps together: C0 is 16 elements of bfloat16, 32 of one byte each."""

NPU = PlatformCapabilities(
    device_type=DEVICE_TYPE,
    supports_triton=False,
    supports_graph_capture=True,
    fp8_variant="e4m3fn",
    default_page_size=PAGE_SIZE,
    registration_alignment=2 << 20,
    latent_layout="latent_split",
    other_latent_layouts=("latent_split_nz",),
    dsa_rows=("packed",),
    index_keys="plain",
)
"""An Ascend device: RDMA registration wants start and length aligned to 2 MiB."""
