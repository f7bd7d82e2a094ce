"""4-bit rows, read through an 8-bit workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

    from .layer import AttentionLayer

__all__ = ["FP4Workspace"]


@runtime_checkable
class FP4Workspace(Capability, Protocol):
    """Does the pool own a workspace into which it dequantizes what attention is about to read?

    One workspace serves all layers: its content is a layer's until the next one prepares it.
    A pool that stores wider rows has no workspace, and does not qualify although it may define
    the doors.
    """

    @property
    def dq_k_buffer(self) -> Tensor:
        """The key workspace, fp8, indexed like the rows it stands in for."""
        ...

    @property
    def dq_v_buffer(self) -> Tensor:
        """The value workspace, fp8."""
        ...

    def get_raw_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`(keys, values, key scales, value scales)` of a layer as stored, packed; aliases.

        A read door: it waits for a registered layer transfer, like those of `KVPool`.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def get_dequant_workspace(self) -> tuple[Tensor, Tensor]:
        """The key and value workspace, whatever they hold; an alias."""
        ...

    def get_flashinfer_dequant_workspace_kv_buffer(
        self,
        layer: AttentionLayer,
        req_to_token: Tensor,
        req_pool_indices_cpu: Sequence[int] | Tensor,
        extend_prefix_lens_cpu: Sequence[int] | Tensor,
        extend_seq_lens_cpu: Sequence[int] | Tensor,
        page_size: int,
        /,
        *,
        prepare_workspace: bool,
        use_ragged: bool,
        k_cur: Tensor | None = None,
        v_cur: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The workspace holding a prefill batch, from its second page on, request after request.

        Each request starts on a page: its cached prefix, then `k_cur` and `v_cur` unless
        `use_ragged`. `prepare_workspace` False returns what an earlier call prepared.
        """
        ...

    def get_flashinfer_decode_dequant_workspace_kv_buffer(
        self,
        layer: AttentionLayer,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        /,
    ) -> tuple[Tensor, Tensor]:
        """The workspace holding, at their own slots, all tokens of a decode batch."""
        ...
